// Package survivetest tests that a file system survives: a process can go on where another
// one has stopped, in the middle of everything.
//
// [Test.Run] mounts the file system, and has several processes serve it. They are the test's
// binary, executed once more, and confined as on a node. One process serves alone, and all is read.
// Then the next one serves: it is asked about what is open since the process before has served, and
// about everything by its path. Attributes, listings, links and contents must be the same. At last
// the processes serve by turns and at the same time, each for some milliseconds, so that hardly two
// requests of a listing or a file are answered by the same one, while a dozen readers read. The
// kernel is told to remember nothing, or few requests would come.
//
// The test kills no process, and does not ask a file system that implements hold.Holder (package
// survive/hold) to hold requests: run the driver, too. Without Landlock (before Linux 5.13), the
// test finds that a file is missing from Driver.Reads only where the file's mode keeps others from
// it.
package survivetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/volume"
)

// Test is a test of a driver's file system. It needs root, /dev/fuse, and CGO_ENABLED=0. With the
// race detector, which needs cgo, no process is confined.
type Test struct {
	Driver survive.Driver
	// Before is a version that Driver takes over from, or nothing. What a process of that version
	// has opened, one of Driver must know.
	Before survive.Driver
	// Site is for the file system: Input, CompanionFiles and Config. The test sets the others.
	Site survive.Site
	// Volumes are the volumes that there are; nil: two of pods that the test makes up. It also
	// makes up a directory, a pod's UID and a time for a record that has none: {Attributes: a} is
	// enough. A file system without volumes need not say so: its root is read.
	Volumes []volume.Record
	// Changes tells whether a file's content, size and times may differ from one read to the next;
	// its path begins in its volume, or in the root of a file system without volumes. nil: no
	// file's may.
	Changes func(path string) bool

	limit time.Duration // 0 for hangTime
}

// Run runs the test, for about three seconds, or for as long as it takes to read all files a dozen
// times. Other processes come to it as well, and serve there: the test must get here each time,
// with the same fields, and call Run once. What it does before, each process does again: a
// temporary directory is another one in each. Site's files are those of the first.
func (c Test) Run(t *testing.T) {
	t.Helper()
	for _, problem := range c.problems(t) {
		t.Error(problem)
	}
}

const (
	// apart is for how long one process has lived when the others begin: content that depends on
	// the beginning may have seconds.
	apart       = 1100 * time.Millisecond
	turnsTime   = time.Second          // for which processes serve by turns
	longestTurn = 4 * time.Millisecond // of one of them
	readers     = 12                   // of everything, meanwhile
	hangTime    = 30 * time.Second     // without the answer to a look at anything
)

// failures collects the failures, each once, until it is closed.
type failures struct {
	mu     sync.Mutex // guards what follows
	all    []string
	closed bool
}

func (f *failures) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	const most = 20
	if text := fmt.Sprintf(format, args...); !f.closed && len(f.all) < most && !slices.Contains(f.all, text) {
		f.all = append(f.all, text)
	}
}

func (f *failures) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

func (f *failures) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all) > 0
}

// run is a run of the test.
type run struct {
	Test
	t      *testing.T
	failed failures
	dir    string // as a run directory
	uid    uint32 // of the processes
	agreed connection.Params
	device int // of /dev/fuse, while processes are started
	kept   *opened
	hangs  *time.Timer
	until  time.Time        // looks end, of any number of files; zero: never
	states map[int]*os.File // by Driver.State

	mu        sync.Mutex // guards what follows
	processes []*process
	aborted   bool
}

// runs are the tests that have come to Run.
var runs sync.Map

func (c Test) problems(t *testing.T) []string {
	t.Helper()
	if text, is := os.LookupEnv(variable); is {
		c.be(text)
	}
	if os.Geteuid() != 0 {
		t.Skip("to mount needs root")
	}
	if _, twice := runs.LoadOrStore(t, true); twice {
		t.Fatal("a test can call Run once, since other processes must find their way to it: use t.Run for each")
	}
	t.Cleanup(func() { runs.Delete(t) })
	r := &run{Test: c, t: t, device: -1, kept: &opened{}, states: map[int]*os.File{}}
	var err error
	r.dir, err = os.MkdirTemp("", "survivetest-")
	r.must(err)
	defer r.end()
	r.hangs = time.AfterFunc(r.hangTime(), func() {
		r.failed.add("the test has not ended: a request, or Driver.FileSystem, gets no answer. Each must get one within four seconds")
		r.abort()
	})
	defer r.hangs.Stop()
	r.run()
	return r.failed.all
}

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (c Test) hangTime() time.Duration { return cmp.Or(c.limit, hangTime) }

// seen says that a look at something has ended. It reports false when there is no time for more.
func (r *run) seen() bool {
	if r.hangs.Stop() {
		r.hangs.Reset(r.hangTime())
	}
	return r.until.IsZero() || time.Now().Before(r.until)
}

// prepare makes the directories and the records, and mounts.
func (r *run) prepare(files survive.FileSystem) (err error) {
	group := int(confine.GroupOf(programOf(r.Driver)))
	const readable = os.ModeSetgid | 0o750
	for name, mode := range map[string]os.FileMode{"fs": 0o700, "tmp": 0o700, "volumes": readable, ".": readable} {
		path := filepath.Join(r.dir, name)
		err = errors.Join(err, os.MkdirAll(path, 0o700), os.Chown(path, 0, group), os.Chmod(path, mode))
	}
	if r.Volumes == nil {
		r.Volumes = []volume.Record{{PodName: "web-0", PodNamespace: "shop"}, {}}
	}
	r.Volumes = slices.Clone(r.Volumes)
	for i := range r.Volumes {
		record := &r.Volumes[i]
		record.Dir = cmp.Or(record.Dir, fmt.Sprintf("/pods/%d/volumes/x/a", i))
		record.PodUID = cmp.Or(record.PodUID, fmt.Sprintf("1d1cd94a-5a5e-4b6c-a8c5-%012d", i))
		record.Mounted = cmp.Or(record.Mounted, time.Unix(1_700_000_000, 123_456_789))
		err = errors.Join(err, store(r.dir).Put(*record))
	}
	if err != nil {
		return err
	}
	options := connection.Options{MaxRead: max(r.Driver.MaxRead, connection.Default.MaxRead)}
	at := filepath.Join(r.dir, "fs")
	if r.device, err = mountOn(at, options); err != nil {
		return err
	}
	r.agreed, err = connection.Handshake(r.device, files, options, 10*time.Second)
	return err
}

// end ends the processes, and with them the connection, and removes everything. It waits for ten
// seconds at most.
func (r *run) end() {
	if r.device >= 0 {
		unix.Close(r.device)
	}
	r.abort()
	late := time.After(10 * time.Second)
	for _, p := range r.processes {
		select {
		case <-p.ended:
		case <-late: // it may wait for a disk
			r.t.Errorf("process %d does not end", p.Pid)
		}
	}
	r.kept.close() // without an answer
	for _, state := range r.states {
		state.Close()
	}
	err := unmount(filepath.Join(r.dir, "fs"))
	if err == nil {
		err = os.RemoveAll(r.dir)
	}
	if err != nil {
		r.t.Error(err)
	}
}

func (r *run) run() {
	var err error
	r.uid, err = confine.RandomUser()
	r.must(err)
	report := func(problem string) { r.failed.add("the file system reports: %s", problem) }
	files, err := fileSystem(r.Driver, survive.Site{Volumes: store(r.dir), Config: r.Site.Config, State: make([]byte, r.Driver.State), CallOut: true, Report: report})
	if err != nil {
		r.failed.add("%v, in a process that mounts", err)
		return
	}
	r.must(r.prepare(files))
	unconfined := r.start(role{})
	first := r.start(role{Confined: !raced, Before: r.Before.FileSystem != nil})
	time.Sleep(apart)
	others := []*process{r.start(role{Confined: !raced}), r.start(role{Confined: !raced}), r.start(role{Confined: !raced})}
	// From here on, this process has files of a file system open, and not its connection.
	unix.Close(r.device)
	r.device = -1

	unconfined.order(serve)
	all, answered := r.look(), nodes{}
	for path := range all {
		answered[path] = node{parts: map[string]string{failure: none}}
	}
	r.compare(answered, all, byItself)
	r.compare(all, r.look(), bySame)
	unconfined.order(stop)
	if len(all) <= 1 {
		r.failed.add("the root of the file system is empty: there is nothing to test")
	}

	first.order(serve)
	want := r.lookAndKeep()
	first.order(stop)
	for i, p := range others {
		if r.failed.any() {
			return
		}
		p.order(serve)
		open := r.kept.look(r) // before the process has seen any of it
		r.look()
		for path, later := range r.kept.look(r) {
			if later.parts[failure] != none {
				open[path] = later
			}
		}
		r.kept.close()
		r.must(r.forget())
		got := r.lookAndKeep()
		p.order(stop)
		if i == 0 && r.Before.FileSystem != nil {
			r.compareVersions(want, got, open)
			want = got
		} else {
			r.compareProcesses(want, got, open)
		}
	}
	if r.compare(all, want, byConfined); !r.failed.any() {
		r.takeTurns(others, want)
	}
}

// forget has the kernel forget all that is not open: it drops the names of a file system that is
// mounted again (fs/super.c, reconfigure_super), and FUSE keeps no file without a name.
func (r *run) forget() error {
	err := unix.Mount("", filepath.Join(r.dir, "fs"), "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	return os.NewSyscallError("remount", err)
}

// takeTurns has the processes serve by turns and at the same time, and readers read meanwhile.
func (r *run) takeTurns(processes []*process, want nodes) {
	var running, reading sync.WaitGroup
	var ended atomic.Bool
	for _, p := range processes {
		running.Go(func() {
			for !ended.Load() {
				p.order(serve)
				time.Sleep(rand.N(longestTurn))
				p.order(stop)
			}
		})
	}
	r.until = time.Now().Add(turnsTime)
	for range readers {
		reading.Go(func() {
			for time.Now().Before(r.until) && !r.failed.any() {
				r.compare(want, r.look(), byTurns)
				r.compare(want, r.kept.look(r), byTurns)
			}
		})
	}
	reading.Wait()
	ended.Store(true)
	running.Wait()
}
