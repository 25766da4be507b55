// Package survivetest tests that a file system survives: a process can go on where another
// one has stopped, in the middle of everything.
//
// [Test.Run] mounts the file system and reads all of it, for reference. Then it has several
// instances serve it by turns and at the same time, each for some milliseconds, so that
// hardly two requests of a listing or a file are answered by the same one, and compares:
// whole trees, files and directories that have been open all the while, and readers by the
// dozen. The kernel is told to remember nothing, or few requests would come.
//
// An instance loses the memory of the one before, but not state outside of memory. The test
// neither confines nor kills a process: run the driver, too.
package survivetest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/volume"
)

// Test is a test of a driver's file system. It needs root, and /dev/fuse.
type Test struct {
	Driver survive.Driver
	// Site is for the file system; the test sets its Volumes and Report.
	Site survive.Site
	// Volumes are the volumes that there are; nil: two of pods that the test makes up.
	Volumes []volume.Record
	// Changes tells whether a file's content may differ from one read to the next; its path
	// begins in its volume. nil: no file's may.
	Changes func(path string) bool
}

// Run runs the test, for about two seconds.
func (c Test) Run(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("to mount needs root")
	}
	for _, problem := range c.problems(t) {
		t.Error(problem)
	}
}

const (
	testTime = 2 * time.Second
	servers  = 3  // that serve at the same time, at most
	readers  = 12 // of everything
	// longestTurn is how long one of the servers serves at most.
	longestTurn = 4 * time.Millisecond
	hangTime    = 30 * time.Second
)

// failures collects the failures, each once.
type failures struct {
	mu  sync.Mutex // guards all
	all []string
}

func (f *failures) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	const most = 20
	if text := fmt.Sprintf(format, args...); len(f.all) < most && !slices.Contains(f.all, text) {
		f.all = append(f.all, text)
	}
}

func (c Test) problems(t *testing.T) []string {
	failed := &failures{}
	c.Site.Volumes = volume.Store{Dir: t.TempDir()}
	c.Site.Report = func(problem string) { failed.add("the file system reports: %s", problem) }
	if c.Volumes == nil {
		c.Volumes = []volume.Record{
			{Dir: "/pods/1/volumes/x/a", PodUID: "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1", PodName: "web-0", PodNamespace: "shop", Mounted: time.Now().Round(0)},
			{Dir: "/pods/2/volumes/x/a", PodUID: "00000000-0000-4000-8000-000000000002", Mounted: time.Now().Round(0)},
		}
	}
	var roots []string
	at := t.TempDir()
	for _, record := range c.Volumes {
		if err := c.Site.Volumes.Put(record); err != nil {
			t.Fatal(err)
		}
		roots = append(roots, filepath.Join(at, record.ID().String()))
	}
	serve := c.mount(t, at, failed)

	end := serve()
	want := map[string]node{}
	for _, root := range roots {
		c.walk(root, root, want, failed)
	}
	kept := keep(want, failed)
	end()
	if len(want) <= len(roots) {
		failed.add("there is nothing in the volumes")
	}

	var running sync.WaitGroup
	var ended atomic.Bool
	for range servers {
		running.Go(func() {
			for !ended.Load() {
				end := serve()
				time.Sleep(rand.N(longestTurn))
				end()
			}
		})
	}
	var reading sync.WaitGroup
	until := time.Now().Add(testTime)
	for range readers {
		reading.Go(func() {
			for time.Now().Before(until) {
				got := map[string]node{}
				for _, root := range roots {
					c.walk(root, root, got, failed)
				}
				compare(want, got, failed)
				kept.compare(want, failed)
			}
		})
	}
	reading.Wait()
	ended.Store(true)
	running.Wait()
	end = serve() // closing a file may have to wait for an answer
	kept.close()
	end()
	return failed.all
}

// mount mounts the file system. serve has a new instance serve it, until end is called.
func (c Test) mount(t *testing.T, at string, failed *failures) (serve func() (end func())) {
	options := connection.Options{MaxRead: max(c.Driver.MaxRead, connection.Default.MaxRead)}
	device, err := mountOn(at, options)
	if err != nil {
		t.Fatal(err)
	}
	abort := func() { _ = unix.Unmount(at, unix.MNT_FORCE|unix.MNT_DETACH) }
	// Nothing else ends a process that waits for an answer of its own.
	hangs := time.AfterFunc(hangTime, func() {
		failed.add("there was no answer: the test has not ended after %v", hangTime)
		abort()
	})
	t.Cleanup(func() {
		hangs.Stop()
		abort()
		unix.Close(device)
	})
	agreed, err := connection.Handshake(device, at, c.Driver.FileSystem(c.Site), options, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	report := func(problem string) { failed.add("%s", problem) }
	free := make(chan connection.Buffers, servers)
	for range servers {
		buffers, err := connection.NewBuffers(1, agreed, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		free <- buffers
	}
	return func() (end func()) {
		buffers := <-free
		served := make(chan error, 1)
		conn, err := connection.New(device, agreed, forgotten{c.Driver.FileSystem(c.Site), report}, buffers, new(counters.Counters), report)
		if err != nil {
			failed.add("serve: %v", err)
			free <- buffers
			return func() {}
		}
		go func() { served <- conn.Serve() }()
		return func() {
			conn.Stop()
			if err := <-served; err != nil {
				failed.add("serve: %v", err)
			}
			free <- buffers
		}
	}
}

// forgotten is a file system whose answers the kernel does not keep.
type forgotten struct {
	survive.FileSystem
	report func(problem string)
}

func (f forgotten) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	status := f.FileSystem.Lookup(cancel, in, name, out)
	out.EntryValid, out.EntryValidNsec, out.AttrValid, out.AttrValidNsec = 0, 0, 0, 0
	return status
}

func (f forgotten) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	status := f.FileSystem.GetAttr(cancel, in, out)
	out.AttrValid, out.AttrValidNsec = 0, 0
	return status
}

func (f forgotten) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.opened("file", f.FileSystem.Open(cancel, in, out), out)
}

func (f forgotten) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.opened("directory", f.FileSystem.OpenDir(cancel, in, out), out)
}

func (f forgotten) opened(what string, status fuse.Status, out *fuse.OpenOut) fuse.Status {
	if status.Ok() && out.Fh != 0 {
		f.report("an open " + what + " has a handle: no other process knows what it stands for")
	}
	out.OpenFlags &^= fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_CACHE_DIR
	return status
}

// node is a file or a directory, as a reader sees it.
type node struct {
	Mode       uint32
	Ino, Nlink uint64
	Size       int64
	UID, GID   uint32
	Times      [2]unix.Timespec // when it was modified, and changed: programs that poll, and tar(1), look at them
	Target     string           // of a link
	Names      string           // in a directory, in their order
	Content    string           // of a file that does not change
	Changes    bool
}

// walk looks at everything below a path.
func (c Test) walk(root, path string, found map[string]node, failed *failures) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		failed.add("%v", &os.PathError{Op: "stat", Path: inside(path), Err: err})
		return
	}
	n := node{Mode: stat.Mode, Ino: stat.Ino, Nlink: uint64(stat.Nlink), Size: stat.Size, UID: stat.Uid, GID: stat.Gid,
		Times: [2]unix.Timespec{stat.Mtim, stat.Ctim}}
	name, err := filepath.Rel(root, path)
	n.Changes = err == nil && c.Changes != nil && c.Changes(name)
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		n.Target, err = os.Readlink(path)
	case unix.S_IFDIR:
		var names []string
		if names, err = list(path); err == nil {
			for _, name := range names {
				c.walk(root, filepath.Join(path, name), found, failed)
			}
			n.Names = strings.Join(names, "/")
		}
	case unix.S_IFREG:
		n.Content, err = content(path)
	}
	if n.Changes {
		n.Content, n.Size, n.Times = "", 0, [2]unix.Timespec{}
	}
	if err != nil {
		failed.add("%v", err)
		return
	}
	found[path] = n
}

// inside is a path without its beginning, which differs from run to run.
func inside(path string) string { return filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path) }

// open opens without the runtime's poller, which would ask the file system from a thread
// that this process needs to answer.
func open(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: inside(path), Err: err}
	}
	return fd, nil
}

func list(path string) ([]string, error) {
	fd, err := open(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return listOpen(fd, path)
}

// listOpen lists a directory from its beginning, an entry or two for each request.
func listOpen(fd int, path string) (names []string, err error) {
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return nil, &os.PathError{Op: "seek", Path: inside(path), Err: err}
	}
	for buffer := make([]byte, 288); ; {
		n, err := unix.Getdents(fd, buffer)
		if err != nil {
			return nil, &os.PathError{Op: "list", Path: inside(path), Err: err}
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
}

func content(path string) (string, error) {
	fd, err := open(path)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return readOpen(fd, path)
}

// readOpen reads a file from its beginning, some bytes at a time.
func readOpen(fd int, path string) (string, error) {
	var text []byte
	for buffer := make([]byte, 1+rand.N(8<<10)); ; {
		n, err := unix.Pread(fd, buffer, int64(len(text)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return "", &os.PathError{Op: "read", Path: inside(path), Err: err}
		}
		if n == 0 {
			return string(text), nil
		}
		text = append(text, buffer[:n]...)
	}
}

// opened has the files that have been open since the first instance served, by path.
type opened struct {
	mu  sync.Mutex // guards the offset of each, for listings
	fds map[string]int
}

func keep(all map[string]node, failed *failures) *opened {
	o := &opened{fds: map[string]int{}}
	for path, n := range all {
		if kind := n.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
			continue
		}
		fd, err := open(path)
		if err != nil {
			failed.add("%v", err)
			continue
		}
		o.fds[path] = fd
	}
	return o
}

func (o *opened) close() {
	for _, fd := range o.fds {
		unix.Close(fd)
	}
}

func (o *opened) compare(want map[string]node, failed *failures) {
	for path, fd := range o.fds {
		var got string
		var err error
		before := want[path].Content
		if want[path].Mode&unix.S_IFMT == unix.S_IFDIR {
			before = want[path].Names
			o.mu.Lock()
			var names []string
			names, err = listOpen(fd, path)
			o.mu.Unlock()
			got = strings.Join(names, "/")
		} else {
			got, err = readOpen(fd, path)
		}
		switch {
		case err != nil:
			failed.add("open all the while: %v", err)
		case got != before && !want[path].Changes:
			failed.add("open all the while: %s has %.100q, and had %.100q", inside(path), got, before)
		}
	}
}

func compare(want, got map[string]node, failed *failures) {
	for path, n := range got {
		if before, was := want[path]; !was {
			failed.add("%s was not there", inside(path))
		} else if n != before {
			failed.add("%s is %.300s, and was %.300s", inside(path), fmt.Sprintf("%+v", n), fmt.Sprintf("%+v", before))
		}
	}
	for path := range want {
		if _, is := got[path]; !is {
			failed.add("%s is not there any more", inside(path))
		}
	}
}
