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
	var all sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
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
	time.Sleep(time.Second)
	// The process that leaves may be waiting for a page.
	d.replaceBinary(newer)
	if output, err := d.command("upgrade").CombinedOutput(); err != nil {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	all.Wait()
	if s := d.status(); s.Daemon.Takeovers != 1 {
		t.Errorf("%d take-overs, want that of the upgrade only", s.Daemon.Takeovers)
	}
}
