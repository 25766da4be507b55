package install_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestUninstallInAContainerUnmountsOnTheNode(t *testing.T) {
	d := testnode.Place(t).OnNode()
	d.Installs(testnode.Binary)
	dir := d.Mount()
	inside, root := d.InContainer("unshare", "--net")
	output, err := inside.Installer(testnode.Binary, "uninstall", "--root", root).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "volumes are in use") || !strings.Contains(string(output), dir) {
		t.Errorf("%v: %s", err, output)
	}
	if got := d.OnItsNode(`cat "$1/pod.uid"`, dir); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	if output, err := inside.Installer(testnode.Binary, "uninstall", "--root", root, "--force").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	if count := d.MountsOnItsNode(); count != 0 {
		t.Errorf("%d mounts are left on the node", count)
	}
	isGone(d)
}

// What kubectl exec calls in the installer's container has the image for its root directory, the
// node's at /host, and the right to change its root directory. It tells what status tells on the
// node, and says no word that is true of the container only.
func TestCommandsInTheContainerOfAnInstaller(t *testing.T) {
	d := testnode.Place(t).OnNode()
	d.Installs(testnode.Binary)
	if err := os.WriteFile(filepath.Join(filepath.Dir(d.Path), "config.json"), []byte(`{"factsDir":"none"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := d.Mount()
	d.Pair()
	container := d
	const script = `image=$1; shift; mount -t tmpfs none "$image" && mkdir "$image/host" "$image/proc" && cp "$1" "$image/" &&
		mount --rbind / "$image/host" && mount --rbind /proc "$image/proc" && shift &&
		exec setpriv --bounding-set -all,+sys_chroot --inh-caps -all -- chroot "$image" "$@"`
	container.On = append(append([]string{}, d.On...), "unshare", "--mount", "--propagation", "slave", "--uts", "--ipc", "--cgroup",
		"sh", "-c", script, "sh", t.TempDir(), testnode.Binary)
	container.Path = "/binary"
	command := func(args ...string) (string, error) {
		output, err := container.Command(append(args, "--driver", d.Name)...).CombinedOutput()
		return string(output), err
	}
	seen := func(text string, err error) (s testnode.Status) {
		t.Helper()
		if err == nil {
			err = json.Unmarshal([]byte(text), &s)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return s
	}
	want, got := d.Status(), seen(command("status", "-o", "json"))
	if !reflect.DeepEqual(got, want) || got.Mount.State != "ok" || len(got.Volumes) != 1 || got.Volumes[0].Dir != dir {
		t.Errorf("in the container, status is %+v; on the node, %+v", got, want)
	}
	for _, name := range []string{"stop", "restore", "upgrade"} {
		output, err := command(name)
		if err == nil || !strings.Contains(output, "call "+name+" on the node") {
			t.Errorf("%s: %v: %s; want to be told that it is to be called on the node", name, err, output)
		}
	}
	d.Must("unmount", dir)
	d.OnItsNode(`"$@"`, d.Path, "stop")
	if got := seen(command("status", "-o", "json")); got.Mount.State != "absent" || got.Daemon.Active != nil {
		t.Errorf("of a driver that nobody uses, status is %+v", got)
	}
}

// A privileged container heals by itself, and what it starts is the node's: it
// has its host name, and goes on when the container is gone.
func TestAWatchInAContainerHealsOnTheNode(t *testing.T) {
	d := testnode.Place(t).OnNode()
	inside, root := d.InContainer()
	w := inside.Watch(testnode.Binary, "install", "--root", root)
	w.IsReady()
	dir := d.Mount()
	w.Counts(map[string]float64{`mount{state="ok"}`: 1, `volumes{state="ok"}`: 1})
	d.KillPair()
	reads := func() bool {
		return d.OnItsNode(`cat "$1/pod.uid" "$1/pod.nodename" || true`, dir) == testnode.PodUID+"\nnode\n"
	}
	testnode.Eventually(t, "the volume reads again", reads)
	w.Logs("the driver was called to heal its volumes")
	w.IsReady()
	w.Ends()
	if !reads() {
		t.Error("the volume does not read when the container is gone")
	}
	if d.OnItsNode("readlink /proc/self/ns/mnt") != d.OnItsNode("readlink /proc/$1/ns/mnt", fmt.Sprint(d.Daemon())) {
		t.Error("the daemon is not in the node's namespace")
	}
	if count := d.MountsOnItsNode(); count != 2 {
		t.Errorf("there are %d mounts on the node, want the node mount and the volume", count)
	}
}

// One without privileges touches the driver, which makes a kubelet call it.
func TestAWatchInAnUnprivilegedContainerHasTheKubeletHeal(t *testing.T) {
	d := testnode.Place(t).OnNode()
	inside, root := d.InContainer("setpriv", "--bounding-set", "-all,+sys_chroot", "--inh-caps", "-all", "--")
	w := inside.Watch(testnode.Binary, "install", "--root", root)
	w.IsReady()
	d.IsWhole(testnode.Binary)
	dir := d.Mount()
	w.Counts(map[string]float64{`mount{state="ok"}`: 1, `volumes{state="ok"}`: 1})
	before := modified(t, d.Path)
	d.KillPair()
	w.IsNotReady("the daemon has died, with its standby; its volumes are healed when the kubelet calls the driver")
	w.Counts(map[string]float64{`mount{state="dead"}`: 1})
	testnode.Eventually(t, "the driver is touched", func() bool { return modified(t, d.Path).After(before) })
	d.Must("init")
	w.IsReady()
	w.Counts(map[string]float64{`mount{state="ok"}`: 1, `volumes{state="ok"}`: 1, `repairs_total{}`: 0})
	if got := d.OnItsNode(`cat "$1/pod.uid"`, dir); got != testnode.PodUID+"\n" {
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
