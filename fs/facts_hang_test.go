package fs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// A file system that does not answer is in the place of the directory of facts, or on the way
// to it: it is never asked, and volumes are served, mounted and survive as ever.
func TestFactsThatHangStopNothingElse(t *testing.T) {
	for _, row := range []struct {
		name  string
		where string // the file system that hangs, relative to the directory of facts
		first bool   // it hangs before the daemon is started
		link  bool   // the configuration names a link to the directory
	}{
		{name: "it hangs", where: "."},
		{name: "the way to it hangs", where: ".."},
		{name: "it has always hung", where: ".", first: true},
		{name: "the way to it has always hung", where: "..", first: true},
		{name: "a link to it", where: ".", link: true},
		{name: "a link to it, and the way has always hung", where: "..", first: true, link: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d, facts := testnode.WithFacts(t, nil)
			log := filepath.Join(filepath.Dir(facts), "log")
			facts = moveDeeper(t, d, facts, row.link)
			testnode.WriteFact(t, "eu-1\n", facts, "zone")
			var volume string
			if !row.first {
				volume = d.Mount()
				if got := testnode.Read(t, volume, "node.zone"); got != "eu-1\n" {
					t.Errorf("node.zone is %q", got)
				}
			}
			recover := testnode.Hang(t, filepath.Join(facts, row.where))
			// Whatever this is, it ends: the kubelet waits for it.
			limit := time.AfterFunc(3*time.Minute, func() {
				t.Error("something hangs")
				recover()
			})
			defer limit.Stop()
			if row.first {
				volume = d.Mount()
			} else if got := testnode.Read(t, volume, "node.zone"); got != "eu-1\n" {
				t.Errorf("the daemon has the directory open, but node.zone is %q", got)
			}
			stop := demand(t, volume)
			defer stop()
			check := func() {
				t.Helper()
				for _, name := range []string{"pod", "pod.uid", "pod.nodename"} {
					// What would hang, hangs until the limit.
					readAfresh(t, filepath.Join(volume, name))
				}
			}
			check()
			for range 2 {
				active, _ := d.Pair() // there is a standby
				testnode.Kill(t, active)
				check()
			}
			d.KillPair()
			for range 2 {
				d.CallThatEnds("init")
				d.Mount()
				check()
			}
			s := d.Status()
			why := []string{"local file system", " fuse.", filepath.Join(facts, row.where)}
			if row.link {
				why = []string{"local file system", "a link on the way leads to another mount"}
			}
			for _, want := range why {
				if !strings.Contains(s.Facts.Error, want) {
					t.Errorf("status says of the facts: %+v; want %q", s.Facts, want)
				}
			}
			if s.Daemon.UpgradeError != "" || s.Facts.Stale {
				t.Errorf("status: %+v", s)
			}
			if text := testnode.Read(t, log); !strings.Contains(text, s.Facts.Error) {
				t.Errorf("the log does not say why there are no facts: %s", text)
			}
			if got := testnode.Names(t, volume); !slices.Equal(got, testnode.EveryVolume) {
				t.Errorf("listed are %q", got)
			}
			testnode.Eventually(t, "nobody but the pair is left", func() bool { return len(processes(d)) <= 2 })
			stop()

			recover()
			d.Must("init")
			if got := testnode.Read(t, volume, "node.zone"); got != "eu-1\n" {
				t.Errorf("it is back, but node.zone is %q", got)
			}
			if s := d.Status().Facts; s.Error != "" || s.Stale || s.Count != 1 {
				t.Errorf("status says of the facts: %+v", s)
			}
		})
	}
}

// What is mounted in the directory is no fact, as it may hang.
func TestAFactOnAnotherFileSystemIsLeftOut(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	inner := filepath.Join(facts, "inner")
	if err := errors.Join(os.Mkdir(inner, 0o755), os.Symlink("inner/zone", filepath.Join(facts, "link"))); err != nil {
		t.Fatal(err)
	}
	volume := d.Mount()
	testnode.Hang(t, inner)
	for name, want := range map[string]error{"node.zone": nil, "node.inner": os.ErrNotExist, "node.link": os.ErrNotExist} {
		if _, err := os.ReadFile(filepath.Join(volume, name)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if got, want := testnode.Names(t, volume), append([]string{"node.zone"}, testnode.EveryVolume...); !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
	if s := d.Status().Facts; s.Count != 1 || len(s.LeftOut) != 2 {
		t.Errorf("status says of the facts: %+v", s)
	}
}

// moveDeeper moves the directory of facts two directories down, so that a mount in the way
// is in nobody else's. The configuration names the directory, or a link to it.
func moveDeeper(t *testing.T, d testnode.Driver, facts string, link bool) string {
	t.Helper()
	deep, named := filepath.Join(facts, "way", "to", "facts.d"), filepath.Join(facts, "link")
	if err := errors.Join(os.MkdirAll(deep, 0o755), os.Symlink("way/to/facts.d", named)); err != nil {
		t.Fatal(err)
	}
	if !link {
		named = deep
	}
	config := filepath.Join(filepath.Dir(d.Path), "config.json")
	testnode.WriteFact(t, strings.Replace(testnode.Read(t, config), facts, named, 1), config)
	return deep
}

// demand has readers ask for facts, and list, all the time.
func demand(t *testing.T, volume string) (stop func()) {
	t.Helper()
	var ended atomic.Bool
	var all sync.WaitGroup
	for _, ask := range []func(){
		func() { _, _ = os.ReadFile(filepath.Join(volume, "node.zone")) },
		func() { _, _ = os.Stat(filepath.Join(volume, "node.other")) },
		func() { _, _ = os.ReadDir(volume) },
	} {
		all.Go(func() {
			for !ended.Load() {
				ask()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	return sync.OnceFunc(func() {
		ended.Store(true)
		all.Wait()
	})
}

// readAfresh reads a file that the page cache does not have.
func readAfresh(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	buffer := make([]byte, 256)
	n, err := file.ReadAt(buffer, 0)
	if n == 0 {
		t.Errorf("%s: %v", path, err)
	}
}

// processes are those of a driver that have a thread left. One that was killed has, while
// that waits in the kernel.
func processes(d testnode.Driver) (all []string) {
	d.T.Helper()
	for _, path := range testnode.Must(filepath.Glob("/proc/[0-9]*")) {
		// Only a thread that is left tells the command line.
		threads, _ := filepath.Glob(filepath.Join(path, "task", "*", "cmdline"))
		if slices.ContainsFunc(threads, func(path string) bool {
			line, _ := os.ReadFile(path)
			return strings.HasPrefix(string(line), d.Path+"\x00")
		}) {
			all = append(all, filepath.Base(path))
		}
	}
	return all
}
