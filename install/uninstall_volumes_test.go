package install_test

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

	"example.com/pod-info-fuse/internal/testnode"
)

// isGone checks that nothing of the driver is on the node.
func isGone(d testnode.Driver, volumes ...string) {
	d.T.Helper()
	for _, dir := range volumes {
		if count := testnode.MountsOn(d.T, dir); count != 0 {
			d.T.Errorf("%d mounts on %s", count, dir)
		}
	}
	if count := testnode.MountsOn(d.T, d.RunDir+"/fs"); count != 0 {
		d.T.Errorf("%d node mounts", count)
	}
	if _, err := os.Stat(d.RunDir); !os.IsNotExist(err) {
		d.T.Errorf("the run directory is there: %v", err)
	}
	if names, err := os.ReadDir(d.PluginDir()); len(names) > 0 {
		d.T.Errorf("in the plugin directory: %v, %v", names, err)
	}
	if pids := testnode.DaemonsOf(d); len(pids) > 0 {
		d.T.Errorf("processes %v", pids)
	}
}

func TestUninstallRefusesWhileVolumesAreInUse(t *testing.T) {
	d := testnode.Place(t)
	d.Installs(testnode.Binary)
	dir := d.Mount()
	active, standby := d.Pair()
	output, err := d.Installer(testnode.Newer, "uninstall").CombinedOutput()
	for _, want := range []string{"volumes are in use; delete their pods:", dir, "shop/web-0"} {
		if err == nil || !strings.Contains(string(output), want) {
			t.Errorf("%v: %s; want %s", err, output, want)
		}
	}
	d.IsWhole(testnode.Binary)
	if a, s := d.Pair(); a != active || s != standby {
		t.Errorf("processes %d and %d became %d and %d", active, standby, a, s)
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.Serves()

	d.Must("unmount", dir)
	if output, err := d.Installer(testnode.Newer, "uninstall").CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("%v: %s", err, output)
	}
	isGone(d, dir)
}

func TestUninstallForceUnmountsVolumes(t *testing.T) {
	d := testnode.Place(t)
	d.Installs(testnode.Binary)
	one, two := d.Mount(), d.Mount()
	busy, err := os.Open(filepath.Join(one, "pod.uid"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if output, err := d.Installer(testnode.Binary, "uninstall", "--force").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	isGone(d, one, two)
}

func TestUninstallOfWhatIsDead(t *testing.T) {
	d := testnode.Place(t)
	d.Installs(testnode.Binary)
	dir := d.Mount()
	d.KillPair()
	if output, err := d.Installer(testnode.Binary, "uninstall").CombinedOutput(); err == nil || !strings.Contains(string(output), dir) {
		t.Errorf("%v: %s", err, output)
	}
	if output, err := d.Installer(testnode.Binary, "uninstall", "--force").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	isGone(d, dir)
}

func TestUninstallOfWhatIsNotInstalled(t *testing.T) {
	d := testnode.Place(t)
	if output, err := d.Installer(testnode.Binary, "uninstall").CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("an empty plugin directory: %v: %s", err, output)
	}
	if err := os.Remove(d.PluginDir()); err != nil {
		t.Fatal(err)
	}
	if output, err := d.Installer(testnode.Binary, "uninstall").CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("no plugin directory: %v: %s", err, output)
	}
	if _, err := os.Stat(d.PluginDir()); !os.IsNotExist(err) {
		t.Errorf("it made the plugin directory: %v", err)
	}
}

// Somebody has deleted the driver under its volumes.
func TestUninstallOfWhatWasDeleted(t *testing.T) {
	d := testnode.Place(t)
	d.Installs(testnode.Binary)
	dir := d.Mount()
	if err := os.RemoveAll(d.PluginDir()); err != nil {
		t.Fatal(err)
	}
	if output, err := d.Installer(testnode.Binary, "uninstall").CombinedOutput(); err == nil || !strings.Contains(string(output), dir) {
		t.Errorf("%v: %s", err, output)
	}
	if output, err := d.Installer(testnode.Binary, "uninstall", "--force").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	if err := os.Mkdir(d.PluginDir(), 0o755); err != nil {
		t.Errorf("it made the plugin directory: %v", err)
	}
	isGone(d, dir)
}

func TestUninstallRefusesALink(t *testing.T) {
	d := testnode.Place(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	testnode.Write(t, elsewhere+"/file", "precious")
	if err := os.Symlink(elsewhere, filepath.Dir(d.Path)); err != nil {
		t.Fatal(err)
	}
	output, err := d.Installer(testnode.Binary, "uninstall", "--force").CombinedOutput()
	if err == nil || !strings.Contains(string(output), filepath.Dir(d.Path)+" is not a directory") {
		t.Errorf("%v: %s", err, output)
	}
	if got := testnode.Read(t, elsewhere, "file"); got != "precious" {
		t.Errorf("it did something to %s: %q", elsewhere, got)
	}
}

func TestUninstallWatchWaitsForTheVolumes(t *testing.T) {
	d := testnode.Place(t)
	d.Installs(testnode.Binary)
	one, two := d.Mount(), d.Mount()
	w := d.Watch(testnode.Newer, "uninstall")
	w.IsNotReady("volumes are in use")
	if _, text := w.Get("/readyz"); !strings.Contains(text, one) || !strings.Contains(text, two) {
		t.Errorf("readyz: %s", text)
	}
	w.Counts(map[string]float64{`volumes{state="ok"}`: 2})
	log := testnode.Read(t, w.Log)
	for _, dir := range []string{one, two} {
		if !regexp.MustCompile(`(?m)^20\S+Z +` + regexp.QuoteMeta(dir) + `  shop/web-0$`).MatchString(log) {
			t.Errorf("the log has no line of its own for %s", dir)
		}
	}
	// Nobody can give a DaemonSet's container a flag.
	if strings.Contains(log, "?") || strings.Contains(log, "--force") {
		t.Error("the log has ? in the place of line ends, or says --force")
	}
	d.Must("unmount", one)
	w.IsNotReady("volumes are in use")
	testnode.Eventually(t, "the first one is gone", func() bool { _, text := w.Get("/readyz"); return !strings.Contains(text, one) })
	d.IsWhole(testnode.Binary)
	d.Must("unmount", two)
	w.IsReady()
	w.Logs(filepath.Dir(d.Path) + " is removed")
	isGone(d, one, two)
	w.Counts(map[string]float64{`volumes{state="ok"}`: 0, `mount{state="absent"}`: 1})
	w.Ends()
	isGone(d, one, two)
}

// Pods that come and go would keep their node's volumes in use for ever: only those that are there
// may have one.
func TestUninstallWatchRefusesNewVolumes(t *testing.T) {
	d := testnode.Place(t)
	d.Installs(testnode.Binary)
	one := d.Mount()
	w := d.Watch(testnode.Newer, "uninstall")
	w.IsNotReady("volumes are in use")
	another := filepath.Join(t.TempDir(), "volume")
	if err := os.Mkdir(another, 0o750); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		const why = "the driver is being removed from this node and takes no new volumes; pod-info-fuse install takes the removal back"
		if a := d.Call("mount", another, testnode.GoodOptions); a.Status != "Failure" || a.Message != why {
			t.Errorf("%s, a new volume: %+v", when, a)
		}
		if testnode.MountsOn(t, another) != 0 || len(d.Records()) != 1 {
			t.Errorf("%s, the new volume has left something: %q", when, d.Records())
		}
		// A kubelet repeats its calls for pods that run.
		d.Must("mount", one, testnode.GoodOptions)
		if got := testnode.Read(t, one, "pod.uid"); got != testnode.PodUID+"\n" {
			t.Errorf("%s, the volume that was there reads %q", when, got)
		}
	}
	refused("while it is uninstalled")
	if output, err := d.Command("status").CombinedOutput(); err != nil || !regexp.MustCompile(`(?m)^new volumes +refused`).Match(output) {
		t.Errorf("status: %v: %s", err, output)
	}
	d.KillPair()
	refused("after a loss")
	if err := w.Process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = w.Process.Wait()
	refused("after uninstall was killed")

	// install takes it back, and so does one that watches.
	d.Installs(testnode.Binary)
	d.Must("mount", another, testnode.GoodOptions)
	d.Must("unmount", another)
	w = d.Watch(testnode.Newer, "uninstall")
	w.IsNotReady("volumes are in use")
	refused("while it is uninstalled again")
	w.Ends()
	w = d.Watch(testnode.Binary, "install")
	w.IsReady()
	d.Must("mount", another, testnode.GoodOptions)
	d.Must("unmount", another)
	w.Ends()

	w = d.Watch(testnode.Newer, "uninstall")
	w.IsNotReady("volumes are in use")
	d.Must("unmount", one)
	w.IsReady()
	isGone(d, one, another)
}

// Where there is a door for CSI, the driver may be in the kubelet's own directory, and a plugin
// that was killed has left its sockets.
func TestUninstallClosesTheDoorForCSI(t *testing.T) {
	d := testnode.Place(t)
	d.Installs(testnode.Binary)
	vendor, _, _ := strings.Cut(d.Name, "/")
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
	output, err := exec.Command(testnode.Binary, "install", "--driver", d.Name, "--plugin-dir", plugin).CombinedOutput()
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
		output, err := d.Installer(testnode.Binary, "uninstall", "--kubelet-dir", kubelet).CombinedOutput()
		return string(output), err
	}

	dir := d.Mount()
	if output, err := uninstall(); err == nil || !strings.Contains(output, dir) {
		t.Errorf("with a volume: %v: %s", err, output)
	}
	for _, path := range []string{filepath.Join(plugin, "csi.sock"), registration} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("with a volume, which has to be unmounted: %v", err)
		}
	}
	d.Must("unmount", dir)
	// A kubelet that has unmounted a persistent volume asks the plugin once more before it removes
	// its file, and may leave the directories.
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
	isGone(d, dir)
	for _, path := range []string{plugin, registration, devices} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
}
