package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// An open, a read and a close are three requests, and where the kernel has the content, two:
// after the mount, after a take-over, when the volume is mounted again, and when it was healed.
func TestAReadTakesThreeRequests(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	check := func(when string) {
		t.Helper()
		for name, want := range map[string]float64{"pod": 3, "pod.nodename": 3, "pod.uid": 2} {
			if got := writesFor(d, filepath.Join(dir, name)); got < want-0.2 || got > want+0.2 {
				t.Errorf("%s, the daemon answers %.2f times to an open, a read and a close of %s, want %.0f", when, got, name, want)
			}
		}
	}
	check("after the mount")
	if _, err := os.Stat(filepath.Join(dir, "pod")); err != nil {
		t.Fatal(err)
	}
	check("after a look at the size")
	active, _ := d.Pair()
	testnode.Kill(t, active)
	d.Pair()
	check("after a take-over")
	d.Must("unmount", dir)
	d.Must("mount", dir, testnode.GoodOptions)
	check("when it was mounted again")
	d.KillPair()
	d.Must("init")
	check("when it was healed")
}

// writesFor is how often the daemon writes for an open, a read and a close of a file.
func writesFor(d testnode.Driver, path string) float64 {
	d.T.Helper()
	const times = 200
	// The answer to a close comes after the close.
	const soon = 20 * time.Millisecond
	reads(d, path, 1)
	time.Sleep(soon)
	active := d.Daemon()
	before := writes(d, active)
	reads(d, path, times)
	time.Sleep(soon)
	return float64(writes(d, active)-before) / times
}

func reads(d testnode.Driver, path string, times int) {
	d.T.Helper()
	for range times {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			d.T.Fatal(err)
		}
		var buffer [128]byte
		if _, err := unix.Read(fd, buffer[:]); err != nil {
			d.T.Error(err)
		}
		unix.Close(fd)
	}
}

// writes is how often a process has called write(2).
func writes(d testnode.Driver, pid int) (calls int) {
	d.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		d.T.Fatal(err)
	}
	var ignored int
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d", &ignored, &ignored, &ignored, &calls); err != nil {
		d.T.Fatalf("%v in %q", err, text)
	}
	return calls
}
