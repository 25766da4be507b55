package command_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestSIGTERMEndsAWatchAndLeavesTheDriver(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	dir := d.Mount()
	w.Ends()
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.IsWhole(testnode.Binary)
	d.Serves()
}

func TestSIGTERMEndsAWatchThatInstalls(t *testing.T) {
	d := testnode.Place(t)
	for range 10 {
		d.Removed()
		w := d.Watch(testnode.Binary, "install")
		testnode.Eventually(t, "it installs", func() bool {
			// At this moment, or just after it.
			return len(glob(t, d.PluginDir()+"/.pod-info-fuse-*")) > 0 || len(glob(t, d.Path)) > 0
		})
		w.Ends()
		if problem := d.LookAt(testnode.ContentsOf(t, testnode.Binary), true); problem != "" {
			t.Error(problem)
		}
	}
	d.IsRepaired(testnode.Binary)
	d.Serves()
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestSIGTERMEndsAWatchThatWaitsForAnotherInstaller(t *testing.T) {
	d := testnode.Place(t)
	other, err := os.Open(d.PluginDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	w := d.Watch(testnode.Binary, "install")
	time.Sleep(testnode.Interval)
	w.IsNotReady("the first look has not ended")
	if status, text := w.Get("/healthz"); status != 200 {
		t.Errorf("healthz: %d %s", status, text)
	}
	w.Ends()
	if names := glob(t, d.PluginDir()+"/*"); len(names) > 0 {
		t.Errorf("it installed %v", names)
	}
}

func TestAPortThatIsInUse(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	second := d.Installer(testnode.Binary, "install", "--watch", "--listen", w.Address)
	output, err := second.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(output), "serve metrics: listen tcp "+w.Address+": bind: address already in use") {
		t.Errorf("%v: %s", err, output)
	}
}
