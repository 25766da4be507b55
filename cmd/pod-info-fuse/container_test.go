package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestUninstallInAContainerUnmountsOnTheNode(t *testing.T) {
	d := place(t).onNode()
	d.installs(binary)
	dir := d.mount()
	inside, root := d.inContainer("unshare", "--net")
	output, err := inside.installer(binary, "uninstall", "--root", root).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "volumes are in use") || !strings.Contains(string(output), dir) {
		t.Errorf("%v: %s", err, output)
	}
	if got := d.onItsNode(`cat "$1/pod.uid"`, dir); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	if output, err := inside.installer(binary, "uninstall", "--root", root, "--force").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	if count := d.mountsOnItsNode(); count != 0 {
		t.Errorf("%d mounts are left on the node", count)
	}
	d.isGone()
}

// What kubectl exec calls in the installer's container has the image for its root directory, the node's
// at /host, and the right to change its root directory. It tells what status tells on the node, and
// says no word that is true of the container only.
func TestCommandsInTheContainerOfAnInstaller(t *testing.T) {
	d := place(t).onNode()
	d.installs(binary)
	if err := os.WriteFile(filepath.Join(filepath.Dir(d.path), "config.json"), []byte(`{"factsDir":"none"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := d.mount()
	d.pair()
	container := d
	const script = `image=$1; shift; mount -t tmpfs none "$image" && mkdir "$image/host" "$image/proc" && cp "$1" "$image/" &&
		mount --rbind / "$image/host" && mount --rbind /proc "$image/proc" && shift &&
		exec setpriv --bounding-set -all,+sys_chroot --inh-caps -all -- chroot "$image" "$@"`
	container.on = append(append([]string{}, d.on...), "unshare", "--mount", "--propagation", "slave", "--uts", "--ipc", "--cgroup",
		"sh", "-c", script, "sh", t.TempDir(), binary)
	container.path = "/binary"
	command := func(args ...string) (string, error) {
		output, err := container.command(append(args, "--driver", d.name)...).CombinedOutput()
		return string(output), err
	}
	seen := func(text string, err error) (s status) {
		t.Helper()
		if err == nil {
			err = json.Unmarshal([]byte(text), &s)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return s
	}
	want, got := d.status(), seen(command("status", "-o", "json"))
	if !reflect.DeepEqual(got, want) || got.Mount.State != "ok" || len(got.Volumes) != 1 || got.Volumes[0].Dir != dir {
		t.Errorf("in the container, status is %+v; on the node, %+v", got, want)
	}
	for _, name := range []string{"stop", "restore", "upgrade"} {
		output, err := command(name)
		if err == nil || !strings.Contains(output, "call "+name+" on the node") {
			t.Errorf("%s: %v: %s; want to be told that it is to be called on the node", name, err, output)
		}
	}
	d.must("unmount", dir)
	d.onItsNode(`"$@"`, d.path, "stop")
	if got := seen(command("status", "-o", "json")); got.Mount.State != "absent" || got.Daemon.Active != nil {
		t.Errorf("of a driver that nobody uses, status is %+v", got)
	}
}

// A privileged container heals by itself, and what it starts is the node's: it
// has its host name, and goes on when the container is gone.
func TestAWatchInAContainerHealsOnTheNode(t *testing.T) {
	d := place(t).onNode()
	inside, root := d.inContainer()
	w := inside.watch(binary, "install", "--root", root)
	w.isReady()
	dir := d.mount()
	w.counts(map[string]float64{`mount{state="ok"}`: 1, `volumes{state="ok"}`: 1})
	d.killPair()
	reads := func() bool {
		return d.onItsNode(`cat "$1/pod.uid" "$1/pod.nodename" || true`, dir) == podUID+"\nnode\n"
	}
	eventually(t, "the volume reads again", reads)
	w.logs("the driver was called to heal its volumes")
	w.isReady()
	w.ends()
	if !reads() {
		t.Error("the volume does not read when the container is gone")
	}
	if d.onItsNode("readlink /proc/self/ns/mnt") != d.onItsNode("readlink /proc/$1/ns/mnt", fmt.Sprint(d.daemon())) {
		t.Error("the daemon is not in the node's namespace")
	}
	if count := d.mountsOnItsNode(); count != 2 {
		t.Errorf("there are %d mounts on the node, want the node mount and the volume", count)
	}
}

// One without privileges touches the driver, which makes a kubelet call it.
func TestAWatchInAnUnprivilegedContainerHasTheKubeletHeal(t *testing.T) {
	d := place(t).onNode()
	inside, root := d.inContainer("setpriv", "--bounding-set", "-all,+sys_chroot", "--inh-caps", "-all", "--")
	w := inside.watch(binary, "install", "--root", root)
	w.isReady()
	d.isWhole(binary)
	dir := d.mount()
	w.counts(map[string]float64{`mount{state="ok"}`: 1, `volumes{state="ok"}`: 1})
	before := modified(t, d.path)
	d.killPair()
	w.isNotReady("the daemon has died, with its standby; its volumes are healed when the kubelet calls the driver")
	w.counts(map[string]float64{`mount{state="dead"}`: 1})
	eventually(t, "the driver is touched", func() bool { return modified(t, d.path).After(before) })
	d.must("init")
	w.isReady()
	w.counts(map[string]float64{`mount{state="ok"}`: 1, `volumes{state="ok"}`: 1, `repairs_total{}`: 0})
	if got := d.onItsNode(`cat "$1/pod.uid"`, dir); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}
