package main_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// isGone checks that nothing of the driver is on the node.
func (d installed) isGone(volumes ...string) {
	d.t.Helper()
	for _, dir := range volumes {
		if count := mountsOn(d.t, dir); count != 0 {
			d.t.Errorf("%d mounts on %s", count, dir)
		}
	}
	if count := mountsOn(d.t, d.runDir+"/fs"); count != 0 {
		d.t.Errorf("%d node mounts", count)
	}
	if _, err := os.Stat(d.runDir); !os.IsNotExist(err) {
		d.t.Errorf("the run directory is there: %v", err)
	}
	if names, err := os.ReadDir(d.pluginDir()); len(names) > 0 {
		d.t.Errorf("in the plugin directory: %v, %v", names, err)
	}
	if pids := daemonsOf(d); len(pids) > 0 {
		d.t.Errorf("processes %v", pids)
	}
}

func TestUninstallRefusesWhileVolumesAreInUse(t *testing.T) {
	d := place(t)
	d.installs(binary)
	dir := d.mount()
	active, standby := d.pair()
	output, err := d.installer(newer, "uninstall").CombinedOutput()
	for _, want := range []string{"volumes are in use; delete their pods:", dir, "shop/web-0"} {
		if err == nil || !strings.Contains(string(output), want) {
			t.Errorf("%v: %s; want %s", err, output, want)
		}
	}
	d.isWhole(binary)
	if a, s := d.pair(); a != active || s != standby {
		t.Errorf("processes %d and %d became %d and %d", active, standby, a, s)
	}
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.serves()

	d.must("unmount", dir)
	if output, err := d.installer(newer, "uninstall").CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("%v: %s", err, output)
	}
	d.isGone(dir)
}

func TestUninstallForceUnmountsVolumes(t *testing.T) {
	d := place(t)
	d.installs(binary)
	one, two := d.mount(), d.mount()
	busy, err := os.Open(filepath.Join(one, "pod.uid"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if output, err := d.installer(binary, "uninstall", "--force").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	d.isGone(one, two)
}

func TestUninstallOfWhatIsDead(t *testing.T) {
	d := place(t)
	d.installs(binary)
	dir := d.mount()
	d.killPair()
	if output, err := d.installer(binary, "uninstall").CombinedOutput(); err == nil || !strings.Contains(string(output), dir) {
		t.Errorf("%v: %s", err, output)
	}
	if output, err := d.installer(binary, "uninstall", "--force").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	d.isGone(dir)
}

func TestUninstallOfWhatIsNotInstalled(t *testing.T) {
	d := place(t)
	if output, err := d.installer(binary, "uninstall").CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("an empty plugin directory: %v: %s", err, output)
	}
	if err := os.Remove(d.pluginDir()); err != nil {
		t.Fatal(err)
	}
	if output, err := d.installer(binary, "uninstall").CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("no plugin directory: %v: %s", err, output)
	}
	if _, err := os.Stat(d.pluginDir()); !os.IsNotExist(err) {
		t.Errorf("it made the plugin directory: %v", err)
	}
}

// Somebody has deleted the driver under its volumes.
func TestUninstallOfWhatWasDeleted(t *testing.T) {
	d := place(t)
	d.installs(binary)
	dir := d.mount()
	if err := os.RemoveAll(d.pluginDir()); err != nil {
		t.Fatal(err)
	}
	if output, err := d.installer(binary, "uninstall").CombinedOutput(); err == nil || !strings.Contains(string(output), dir) {
		t.Errorf("%v: %s", err, output)
	}
	if output, err := d.installer(binary, "uninstall", "--force").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	if err := os.Mkdir(d.pluginDir(), 0o755); err != nil {
		t.Errorf("it made the plugin directory: %v", err)
	}
	d.isGone(dir)
}

func TestUninstallRefusesALink(t *testing.T) {
	d := place(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, elsewhere+"/file", "precious")
	if err := os.Symlink(elsewhere, filepath.Dir(d.path)); err != nil {
		t.Fatal(err)
	}
	output, err := d.installer(binary, "uninstall", "--force").CombinedOutput()
	if err == nil || !strings.Contains(string(output), filepath.Dir(d.path)+" is not a directory") {
		t.Errorf("%v: %s", err, output)
	}
	if got := read(t, elsewhere, "file"); got != "precious" {
		t.Errorf("it did something to %s: %q", elsewhere, got)
	}
}

func TestUninstallWatchWaitsForTheVolumes(t *testing.T) {
	d := place(t)
	d.installs(binary)
	one, two := d.mount(), d.mount()
	w := d.watch(newer, "uninstall")
	w.isNotReady("volumes are in use")
	if _, text := w.get("/readyz"); !strings.Contains(text, one) || !strings.Contains(text, two) {
		t.Errorf("readyz: %s", text)
	}
	w.counts(map[string]float64{`volumes{state="ok"}`: 2})
	log := read(t, w.log)
	for _, dir := range []string{one, two} {
		if !regexp.MustCompile(`(?m)^20\S+Z +` + regexp.QuoteMeta(dir) + `  shop/web-0$`).MatchString(log) {
			t.Errorf("the log has no line of its own for %s", dir)
		}
	}
	// Nobody can give a DaemonSet's container a flag.
	if strings.Contains(log, "?") || strings.Contains(log, "--force") {
		t.Error("the log has ? in the place of line ends, or says --force")
	}
	d.must("unmount", one)
	w.isNotReady("volumes are in use")
	eventually(t, "the first one is gone", func() bool { _, text := w.get("/readyz"); return !strings.Contains(text, one) })
	d.isWhole(binary)
	d.must("unmount", two)
	w.isReady()
	w.logs(filepath.Dir(d.path) + " is removed")
	d.isGone(one, two)
	w.counts(map[string]float64{`volumes{state="ok"}`: 0, `mount{state="absent"}`: 1})
	w.ends()
	d.isGone(one, two)
}

// Pods that come and go would keep their node's volumes in use for ever: only those that are there may
// have one.
func TestUninstallWatchRefusesNewVolumes(t *testing.T) {
	d := place(t)
	d.installs(binary)
	one := d.mount()
	w := d.watch(newer, "uninstall")
	w.isNotReady("volumes are in use")
	another := filepath.Join(t.TempDir(), "volume")
	if err := os.Mkdir(another, 0o750); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		const why = "the driver is being removed from this node and takes no new volumes; pod-info-fuse install takes the removal back"
		if a := d.call("mount", another, goodOptions); a.Status != "Failure" || a.Message != why {
			t.Errorf("%s, a new volume: %+v", when, a)
		}
		if mountsOn(t, another) != 0 || len(d.records()) != 1 {
			t.Errorf("%s, the new volume has left something: %q", when, d.records())
		}
		// A kubelet repeats its calls for pods that run.
		d.must("mount", one, goodOptions)
		if got := read(t, one, "pod.uid"); got != podUID+"\n" {
			t.Errorf("%s, the volume that was there reads %q", when, got)
		}
	}
	refused("while it is uninstalled")
	if output, err := d.command("status").CombinedOutput(); err != nil || !regexp.MustCompile(`(?m)^new volumes +refused`).Match(output) {
		t.Errorf("status: %v: %s", err, output)
	}
	d.killPair()
	refused("after a loss")
	if err := w.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = w.process.Wait()
	refused("after uninstall was killed")

	// install takes it back, and so does one that watches.
	d.installs(binary)
	d.must("mount", another, goodOptions)
	d.must("unmount", another)
	w = d.watch(newer, "uninstall")
	w.isNotReady("volumes are in use")
	refused("while it is uninstalled again")
	w.ends()
	w = d.watch(binary, "install")
	w.isReady()
	d.must("mount", another, goodOptions)
	d.must("unmount", another)
	w.ends()

	w = d.watch(newer, "uninstall")
	w.isNotReady("volumes are in use")
	d.must("unmount", one)
	w.isReady()
	d.isGone(one, another)
}

// Where there is a door for CSI, the driver may be in the kubelet's own directory, and a plugin
// that was killed has left its sockets.
func TestUninstallClosesTheDoorForCSI(t *testing.T) {
	d := place(t)
	d.installs(binary)
	vendor, _, _ := strings.Cut(d.name, "/")
	name := "pod-info-fuse." + vendor
	kubelet, err := os.MkdirTemp("", "k") // a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(kubelet) })
	plugin := filepath.Join(kubelet, "plugins", name)
	registration := filepath.Join(kubelet, "plugins_registry", name+"-reg.sock")
	if err := errors.Join(os.MkdirAll(plugin, 0o755), os.Mkdir(filepath.Dir(registration), 0o755)); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command(binary, "install", "--driver", d.name, "--plugin-dir", plugin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, socket := range []string{filepath.Join(plugin, "csi.sock"), registration} {
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	uninstall := func() (string, error) {
		output, err := d.installer(binary, "uninstall", "--kubelet-dir", kubelet).CombinedOutput()
		return string(output), err
	}

	dir := d.mount()
	if output, err := uninstall(); err == nil || !strings.Contains(output, dir) {
		t.Errorf("with a volume: %v: %s", err, output)
	}
	for _, path := range []string{filepath.Join(plugin, "csi.sock"), registration} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("with a volume, which has to be unmounted: %v", err)
		}
	}
	d.must("unmount", dir)
	// A kubelet that has unmounted a persistent volume asks the plugin once more before it removes its file, and
	// may leave the directories.
	devices := filepath.Join(kubelet, "plugins/kubernetes.io/csi", name)
	file := filepath.Join(devices, "0f", "vol_data.json")
	err = errors.Join(os.MkdirAll(filepath.Join(devices, "0f", "globalmount"), 0o750), os.MkdirAll(filepath.Join(devices, "1f", "globalmount"), 0o750),
		os.WriteFile(file, nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan error)
	time.AfterFunc(time.Second, func() {
		_, err := os.Lstat(registration)
		released <- errors.Join(err, os.Remove(file))
	})
	if output, err := uninstall(); err != nil || output != "" {
		t.Errorf("%v: %s", err, output)
	}
	if err := <-released; err != nil {
		t.Errorf("before the kubelet has released a persistent volume: %v", err)
	}
	d.isGone(dir)
	for _, path := range []string{plugin, registration, devices} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
}

// What is not the plugin's stays, and is told.
func TestUninstallRemovesNothingOfOthersFromTheKubelet(t *testing.T) {
	d := place(t)
	vendor, _, _ := strings.Cut(d.name, "/")
	kubelet := t.TempDir()
	file := filepath.Join(kubelet, "plugins", "pod-info-fuse."+vendor, "csi.sock")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := d.installer(binary, "uninstall", "--kubelet-dir", kubelet).CombinedOutput()
	if err == nil || !strings.Contains(string(output), file+" is not a socket") {
		t.Errorf("%v: %s", err, output)
	}
	if _, err := os.Lstat(file); err != nil {
		t.Error(err)
	}
}
