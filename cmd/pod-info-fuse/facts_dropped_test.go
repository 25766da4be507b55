package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A reader that has the kernel drop the pages of a fact holds their locks until the
// daemon answers, and the daemon waits for them when it puts the fact into the page
// cache for others.
func TestReadersThatDropPagesDoNotStopTheDaemon(t *testing.T) {
	d, facts := withFacts(t, nil)
	writeFact(t, strings.Repeat("a line\n", 9000), facts, "big")
	volume := d.mount()
	fact := filepath.Join(volume, "node.big")
	fs := filepath.Join(d.status().RunDir, "fs")
	// Should it hang all the same, nothing but this ends who waits.
	abort := time.AfterFunc(20*time.Second, func() {
		t.Error("the daemon hangs")
		_ = unix.Unmount(fs, unix.MNT_FORCE)
	})
	defer abort.Stop()
	wait := dropPages(t, fact, 3*time.Second)
	time.Sleep(time.Second)
	// The process that leaves may be waiting for a page.
	d.replaceBinary(newer)
	if output, err := d.command("upgrade").CombinedOutput(); err != nil {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	wait()
	if s := d.status(); s.Daemon.Takeovers != 1 {
		t.Errorf("status: %+v; want the take-over of the upgrade only", s.Daemon)
	}
}

// One that is killed while it waits for such a page cannot end before somebody answers
// the reader who holds it.
func TestAProcessThatDiesWhileItWaitsForAPageIsReplaced(t *testing.T) {
	t.Parallel() // it waits for seconds
	d, facts := withFacts(t, nil)
	writeFact(t, strings.Repeat("a line\n", 9000), facts, "big")
	volume := d.mount()
	fs := filepath.Join(d.status().RunDir, "fs")
	abort := time.AfterFunc(60*time.Second, func() {
		t.Error("the daemon hangs")
		_ = unix.Unmount(fs, unix.MNT_FORCE)
	})
	defer abort.Stop()
	for range 3 {
		active, _ := d.pair()
		wait := dropPages(t, filepath.Join(volume, "node.big"), time.Second)
		time.Sleep(300 * time.Millisecond)
		kill(t, active)
		killed := time.Now()
		wait()
		if got := read(t, volume, "pod.nodename"); got == "" {
			t.Error("pod.nodename is empty")
		}
		if took := time.Since(killed); took > 10*time.Second {
			t.Errorf("service was back after %v", took)
		}
		eventually(t, "the dead process has ended", func() bool { return !alive(active) })
	}
}

// dropPages has readers drop the pages of a fact, read them again, and open it, for a
// time. wait waits until they have ended.
func dropPages(t *testing.T, fact string, duration time.Duration) (wait func()) {
	var all sync.WaitGroup
	end := time.Now().Add(duration)
	for range 8 {
		all.Go(func() {
			file, err := os.Open(fact)
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			for buffer := make([]byte, 1<<16); time.Now().Before(end); {
				_ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
				if _, err := file.ReadAt(buffer[:60000], 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Go(func() {
			for time.Now().Before(end) {
				fd, err := syscall.Open(fact, syscall.O_RDONLY, 0)
				if err != nil {
					t.Error(err)
					return
				}
				syscall.Close(fd)
			}
		})
	}
	return all.Wait
}
