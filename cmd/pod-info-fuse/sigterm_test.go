package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSIGTERMEndsAWatchAndLeavesTheDriver(t *testing.T) {
	d := place(t)
	w := d.watch(binary, "install")
	w.isReady()
	dir := d.mount()
	w.ends()
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.isWhole(binary)
	d.serves()
}

func TestSIGTERMEndsAWatchThatInstalls(t *testing.T) {
	d := place(t)
	for range 10 {
		d.removed()
		w := d.watch(binary, "install")
		eventually(t, "it installs", func() bool {
			// At this moment, or just after it.
			return len(glob(t, d.pluginDir()+"/.pod-info-fuse-*")) > 0 || len(glob(t, d.path)) > 0
		})
		w.ends()
		if problem := d.lookAt(contentsOf(t, binary), true); problem != "" {
			t.Error(problem)
		}
	}
	d.isRepaired(binary)
	d.serves()
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
	d := place(t)
	other, err := os.Open(d.pluginDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	w := d.watch(binary, "install")
	time.Sleep(interval)
	w.isNotReady("the first look has not ended")
	if status, text := w.get("/healthz"); status != 200 {
		t.Errorf("healthz: %d %s", status, text)
	}
	w.ends()
	if names := glob(t, d.pluginDir()+"/*"); len(names) > 0 {
		t.Errorf("it installed %v", names)
	}
}

func TestAPortThatIsInUse(t *testing.T) {
	d := place(t)
	w := d.watch(binary, "install")
	second := d.installer(binary, "install", "--watch", "--listen", w.address)
	output, err := second.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(output), "serve metrics: listen tcp "+w.address+": bind: address already in use") {
		t.Errorf("%v: %s", err, output)
	}
}
