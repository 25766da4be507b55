package survive_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// size is what a process takes of the node.
type size struct {
	threads, descriptors int
	memory               int // private, in KiB
}

func sizeOf(t *testing.T, pid int) size {
	t.Helper()
	status := statusOf(t, pid)
	threads := testnode.Must(strconv.Atoi(status["Threads"]))
	memory := testnode.Must(strconv.Atoi(strings.TrimSuffix(status["RssAnon"], " kB")))
	return size{threads, descriptorsOf(t, pid), memory}
}

// hammer does what a pod may do, from many threads and with many files open.
func hammer(t *testing.T, dir string, threads int, until time.Time) {
	t.Helper()
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for time.Now().Before(until) {
				for _, name := range []string{"pod", "pod.uid", "pod.nodename", "pid", "no-such-file"} {
					if data, err := os.ReadFile(filepath.Join(dir, name)); (err != nil) != (name == "no-such-file") {
						t.Errorf("%s: %q, %v", name, data, err)
						return
					}
				}
				if _, err := os.ReadDir(dir); err != nil {
					t.Error(err)
					return
				}
				_, _ = unix.Getxattr(filepath.Join(dir, "pod"), "user.x", make([]byte, 65536))
				_ = unix.Access(filepath.Join(dir, "pod"), unix.W_OK)
			}
		})
	}
	all.Wait()
}

func TestAPodCannotMakeTheDaemonGrow(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	active, _ := d.Pair()
	hammer(t, dir, 4, time.Now().Add(500*time.Millisecond))
	before := sizeOf(t, active)

	const files = 10_000
	raiseDescriptors(t, files+1000)
	var open []int
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	for i := range files {
		name := []string{"pod", "pod.uid", "pod.nodename", "."}[i%4]
		fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, fd)
	}
	hammer(t, dir, 200, time.Now().Add(2*time.Second))

	after := sizeOf(t, active)
	t.Logf("before %+v, after %+v", before, after)
	const (
		threads = 8    // the runtime makes one when another waits in a system call
		memory  = 2048 // of garbage
	)
	if after.descriptors > before.descriptors || after.threads > before.threads+threads || after.memory > before.memory+memory {
		t.Errorf("the daemon grew from %+v to %+v", before, after)
	}
}

func raiseDescriptors(t *testing.T, count uint64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	raised := unix.Rlimit{Cur: max(limit.Cur, count), Max: max(limit.Max, count)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
		t.Fatalf("%d descriptors: %v", count, err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) })
}
