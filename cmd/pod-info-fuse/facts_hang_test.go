package main_test

import (
	encoding "encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
			d, facts := withFacts(t, nil)
			log := filepath.Join(filepath.Dir(facts), "log")
			facts = moveDeeper(t, d, facts, row.link)
			writeFact(t, "eu-1\n", facts, "zone")
			var volume string
			if !row.first {
				volume = d.mount()
				if got := read(t, volume, "node.zone"); got != "eu-1\n" {
					t.Errorf("node.zone is %q", got)
				}
			}
			recover := hang(t, filepath.Join(facts, row.where))
			// Whatever this is, it ends: the kubelet waits for it.
			limit := time.AfterFunc(3*time.Minute, func() {
				t.Error("something hangs")
				recover()
			})
			defer limit.Stop()
			if row.first {
				volume = d.mount()
			} else if got := read(t, volume, "node.zone"); got != "eu-1\n" {
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
				active, _ := d.pair() // there is a standby
				kill(t, active)
				check()
			}
			d.killPair()
			for range 2 {
				d.callThatEnds("init")
				d.mount()
				check()
			}
			s := d.status()
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
			if text := read(t, log); !strings.Contains(text, s.Facts.Error) {
				t.Errorf("the log does not say why there are no facts: %s", text)
			}
			if got := names(t, volume); !slices.Equal(got, everyVolume) {
				t.Errorf("listed are %q", got)
			}
			eventually(t, "nobody but the pair is left", func() bool { return len(d.processes()) <= 2 })
			stop()

			recover()
			d.must("init")
			if got := read(t, volume, "node.zone"); got != "eu-1\n" {
				t.Errorf("it is back, but node.zone is %q", got)
			}
			if s := d.status().Facts; s.Error != "" || s.Stale || s.Count != 1 {
				t.Errorf("status says of the facts: %+v", s)
			}
		})
	}
}

// What is mounted in the directory is no fact, as it may hang.
func TestAFactOnAnotherFileSystemIsLeftOut(t *testing.T) {
	d, facts := withFacts(t, nil)
	writeFact(t, "eu-1\n", facts, "zone")
	inner := filepath.Join(facts, "inner")
	if err := errors.Join(os.Mkdir(inner, 0o755), os.Symlink("inner/zone", filepath.Join(facts, "link"))); err != nil {
		t.Fatal(err)
	}
	volume := d.mount()
	hang(t, inner)
	for name, want := range map[string]error{"node.zone": nil, "node.inner": os.ErrNotExist, "node.link": os.ErrNotExist} {
		if _, err := os.ReadFile(filepath.Join(volume, name)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if got, want := names(t, volume), append([]string{"node.zone"}, everyVolume...); !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
	if s := d.status().Facts; s.Count != 1 || len(s.LeftOut) != 2 {
		t.Errorf("status says of the facts: %+v", s)
	}
}

// moveDeeper moves the directory of facts two directories down, so that a mount in the way
// is in nobody else's. The configuration names the directory, or a link to it.
func moveDeeper(t *testing.T, d installed, facts string, link bool) string {
	t.Helper()
	deep, named := filepath.Join(facts, "way", "to", "facts.d"), filepath.Join(facts, "link")
	if err := errors.Join(os.MkdirAll(deep, 0o755), os.Symlink("way/to/facts.d", named)); err != nil {
		t.Fatal(err)
	}
	if !link {
		named = deep
	}
	config := filepath.Join(filepath.Dir(d.path), "config.json")
	writeFact(t, strings.Replace(read(t, config), facts, named, 1), config)
	return deep
}

// hang mounts a file system on a directory that takes requests and never answers: not even
// SIGKILL ends who waits for one. recover removes it, and ends those waits.
func hang(t *testing.T, dir string) (recover func()) {
	t.Helper()
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("hang", dir, "fuse.hang", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device)); err != nil {
		t.Fatal(err)
	}
	// FUSE_INIT is answered, with protocol 7.31 and no feature.
	request, reply := make([]byte, 1<<17), make([]byte, 16+64) // struct fuse_out_header, fuse_init_out
	if _, err := unix.Read(device, request); err != nil {
		t.Fatal(err)
	}
	copy(reply[8:16], request[8:16]) // its id
	for at, value := range map[int]uint32{0: uint32(len(reply)), 16: 7, 20: 31, 36: 4096} {
		encoding.NativeEndian.PutUint32(reply[at:], value)
	}
	if _, err := unix.Write(device, reply); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			_, err := unix.Read(device, request)
			switch {
			case errors.Is(err, unix.EAGAIN):
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(device), Events: unix.POLLIN}}, -1)
			case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ECONNABORTED):
				return
			}
		}
	}()
	recover = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
		<-ended
		unix.Close(device)
	})
	t.Cleanup(recover)
	return recover
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
func (d installed) processes() (all []string) {
	d.t.Helper()
	for _, path := range must(filepath.Glob("/proc/[0-9]*")) {
		// Only a thread that is left tells the command line.
		threads, _ := filepath.Glob(filepath.Join(path, "task", "*", "cmdline"))
		if slices.ContainsFunc(threads, func(path string) bool {
			line, _ := os.ReadFile(path)
			return strings.HasPrefix(string(line), d.path+"\x00")
		}) {
			all = append(all, filepath.Base(path))
		}
	}
	return all
}
