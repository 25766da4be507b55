//go:build e2e

package e2e

import (
	"slices"
	"syscall"
	"testing"
)

func TestKubeletRestart(t *testing.T) {
	n := testNode
	before := runPod(t, newManifest("before-restart"))
	container := before.mustContainer(t, "main")
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
	if err := before.delete(); err != nil {
		t.Error(err)
	}
	after.checkFiles(t, "main", infoDir)
}

// A daemon that died must not be in the way of new pods, nor of the end of the
// pods that it served.
func TestDaemonKilled(t *testing.T) {
	d := testNode.driver(driverName)
	before := runPod(t, newManifest("before-kill"))
	status, err := d.status()
	if err != nil {
		t.Fatal(err)
	}
	pid := status.Daemon.Active.PID
	if !slices.Contains(testNode.processes(), pid) {
		t.Fatalf("the driver says that its daemon is %d, which is no process of this node", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill the daemon %d: %v", pid, err)
	}
	after := runPod(t, newManifest("after-kill"))
	after.checkFiles(t, "main", infoDir)
	if err := before.delete(); err != nil {
		t.Error(err)
	}
	after.checkFiles(t, "main", infoDir)
}

// A new version is renamed onto the old one while pods use it.
func TestUpgrade(t *testing.T) {
	d := testNode.driver(driverName)
	before := runPod(t, newManifest("before-upgrade"))
	if err := d.upgrade(); err != nil {
		t.Fatal(err)
	}
	before.checkFiles(t, "main", infoDir)
	after := runPod(t, newManifest("after-upgrade"))
	after.checkFiles(t, "main", infoDir)
	before.checkFiles(t, "main", infoDir)
}
