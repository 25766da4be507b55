//go:build e2e

package e2e

import "testing"

func TestKubeletRestart(t *testing.T) {
	n := testNode
	before := runPod(t, newManifest("before-restart"))
	container := before.mustContainer(t, "main")
	d := n.driver(driverName)
	daemon := d.pair(t)
	if err := n.killKubelet(); err != nil {
		t.Fatal(err)
	}
	if err := n.startKubelet(); err != nil {
		t.Fatal(err)
	}
	before.waitFor(t, "main")
	before.checkFiles(t, "main", infoDir)
	if now := before.mustContainer(t, "main"); now != container {
		t.Errorf("the container that ran before was %s, now it is %s", container, now)
	}

	after := runPod(t, newManifest("after-restart"))
	after.checkFiles(t, "main", infoDir)
	// The kubelet that came up has called init and mount.
	if now := d.pair(t); now != daemon {
		t.Errorf("the daemon was %+v, now it is %+v", daemon, now)
	}
	if err := before.delete(); err != nil {
		t.Error(err)
	}
	after.checkFiles(t, "main", infoDir)
}

// A daemon's process that died must not be in the way of pods that run, of new
// pods, nor of the end of the pods that it served.
func TestDaemonKilled(t *testing.T) {
	d := testNode.driver(driverName)
	before := runPod(t, newManifest("before-kill"))
	kill(t, d.pair(t).Active)
	before.checkFiles(t, "main", infoDir)
	after := runPod(t, newManifest("after-kill"))
	after.checkFiles(t, "main", infoDir)
	if err := before.delete(); err != nil {
		t.Error(err)
	}
	after.checkFiles(t, "main", infoDir)
}

// A new version is renamed onto the old one while pods use it.
func TestUpgrade(t *testing.T) {
	n := testNode
	d := n.driver(driverName)
	m := newManifest("before-upgrade")
	m.Spec.Containers = append(m.Spec.Containers, newWatcher("watcher", "--keep-open"))
	before := runPod(t, m)
	containers := before.containers(t)
	old := d.pair(t)
	// Another one each time that the test runs on this node.
	version := n.newID("upgrade")
	if err := n.Build(version, "../cmd/pod-info-fuse", "-ldflags", "-s -w -X main.version="+version); err != nil {
		t.Fatal(err)
	}
	if err := d.upgrade(n.Program(version)); err != nil {
		t.Fatal(err)
	}
	before.checkFiles(t, "main", infoDir)
	// For this pod's volume the kubelet looks at the driver again, and calls init.
	after := runPod(t, newManifest("after-upgrade"))
	d.pair(t, old.Active, old.Standby)
	status, err := d.Status()
	if err != nil {
		t.Fatal(err)
	}
	if now := status.Daemon; now.Active.Version != version || now.Standby.Version != version || now.LastTakeover.Cause != "planned" {
		t.Errorf("the version %s was put in place, and the daemon is %+v", version, now)
	}
	after.checkFiles(t, "main", infoDir)
	before.checkFiles(t, "main", infoDir)
	before.goesOn(t, "watcher")
	before.checkWatcher(t, "watcher")
	before.checkContainers(t, containers)
}
