package fs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/testnode"
)

func TestReadersThatDropPagesDoNotStopTheDaemon(t *testing.T) {
	d, fact := withBigFact(t)
	wait := dropPages(t, fact, 8, 2*time.Second, nil)
	time.Sleep(time.Second)
	d.ReplaceBinary(testnode.Newer)
	if output, err := d.Command("upgrade").CombinedOutput(); err != nil {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	wait()
	if s := d.Status(); s.Daemon.Takeovers != 1 {
		t.Errorf("status: %+v; want the take-over of the upgrade only", s.Daemon)
	}
}

func TestReadersThatDropPagesDoNotDelayATakeOver(t *testing.T) {
	d, fact := withBigFact(t)
	for range 3 {
		active, _ := d.Pair()
		wait := dropPages(t, fact, 8, time.Second, nil)
		time.Sleep(300 * time.Millisecond)
		testnode.Kill(t, active)
		watch := stopwatch.Start()
		if got := testnode.Read(t, filepath.Dir(fact), "pod.nodename"); got == "" {
			t.Error("pod.nodename is empty")
		}
		// It takes more than five seconds to replace a process that does not end.
		if took, late := watch.Stop(); took > 4*time.Second {
			t.Errorf("service was back after %v, and %v in which the machine was late", took, late)
		}
		wait()
	}
}

// When both processes have died, nothing of them may be left that keeps /dev/fuse open:
// who reads would wait for ever, and nobody would know that the mount is dead.
func TestReadersThatDropPagesDoNotPreventHealing(t *testing.T) {
	d, fact := withBigFact(t)
	for range 7 {
		wait := dropPages(t, fact, 100, 600*time.Millisecond, []error{
			unix.ENOTCONN, unix.ECONNABORTED, unix.ECONNREFUSED, unix.EIO, unix.ENODEV, unix.ENOENT,
		})
		time.Sleep(300 * time.Millisecond)
		d.KillPair()
		d.Must("init")
		if got := len(testnode.Read(t, fact)); got != bigFact {
			t.Errorf("healed: the fact has %d bytes, want %d", got, bigFact)
		}
		wait()
	}
}

const bigFact = 63000

// withBigFact installs a driver, and mounts a volume with a fact. Should anything hang, the
// connection is aborted, as nothing else ends who waits.
func withBigFact(t *testing.T) (d testnode.Driver, fact string) {
	t.Helper()
	d, facts := testnode.WithFacts(t, nil)
	testnode.WriteFact(t, strings.Repeat("a line\n", bigFact/7), facts, "big")
	fact = filepath.Join(d.Mount(), "node.big")
	fs := filepath.Join(d.Status().RunDir, "fs")
	abort := time.AfterFunc(3*time.Minute, func() {
		t.Error("it hangs")
		_ = unix.Unmount(fs, unix.MNT_FORCE)
	})
	t.Cleanup(func() { abort.Stop() })
	return d, fact
}

// dropPages has so many readers drop the pages of a fact and read them again, and a few
// others open it, for a time. They may get some errors, and open it again then. wait waits
// until they have ended.
func dropPages(t *testing.T, fact string, readers int, duration time.Duration, allowed []error) (wait func()) {
	var all sync.WaitGroup
	end := time.Now().Add(duration)
	repeat := func(f func() error) {
		for time.Now().Before(end) {
			if err := f(); err != nil && !slices.ContainsFunc(allowed, func(a error) bool { return errors.Is(err, a) }) {
				t.Error(err)
				return
			}
		}
	}
	for range readers {
		all.Go(func() {
			repeat(func() error {
				file, err := os.Open(fact)
				if err != nil {
					return err
				}
				defer file.Close()
				for buffer := make([]byte, 60000); time.Now().Before(end) && err == nil; {
					_ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
					_, err = file.ReadAt(buffer, 0)
				}
				return err
			})
		})
	}
	for range 8 {
		all.Go(func() {
			repeat(func() error {
				file, err := os.Open(fact)
				if err == nil {
					file.Close()
				}
				return err
			})
		})
	}
	return all.Wait
}
