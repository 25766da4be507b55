package connection_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/volume"
)

// slow is a file system that takes longer to answer than its readers to ask again, as
// on a machine with many processors. It counts what is read.
type slow struct {
	*fs.FS
	reads *atomic.Int64
}

const slowTime = time.Millisecond

// forever is how long something is waited for that happens at once, also on a busy machine.
const forever = time.Minute

func (s slow) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(slowTime)
	return s.FS.Lookup(cancel, header, name, out)
}

func (s slow) Read(cancel <-chan struct{}, in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	s.reads.Add(1)
	time.Sleep(slowTime)
	return s.FS.Read(cancel, in, buffer)
}

// hammers is how many threads hammer, so that requests wait all the time.
const hammers = 32

// hammer asks from that many threads.
func (m *mounted) hammer(ask func(thread int)) {
	var stop atomic.Bool
	ended := make(chan bool)
	for i := range hammers {
		go func() {
			for !stop.Load() {
				ask(i)
			}
			ended <- true
		}()
	}
	m.t.Cleanup(func() {
		stop.Store(true)
		for range hammers {
			<-ended
		}
	})
	time.Sleep(20 * slowTime)
}

// hammerOnPod hammers on one file.
func (m *mounted) hammerOnPod() {
	m.t.Helper()
	fd := m.pod(m.volume)
	m.hammer(func(int) {
		if _, err := readAt0(fd); err != nil {
			m.t.Error(err)
		}
	})
}

// read reads a file from its beginning.
func (m *mounted) read(fd int) {
	m.t.Helper()
	answer := make(chan error, 1)
	go func() {
		_, err := readAt0(fd)
		answer <- err
	}()
	select {
	case err := <-answer:
		if err != nil {
			m.t.Error(err)
		}
	case <-time.After(forever):
		m.t.Fatal("the reader is not answered")
	}
}

// pod opens the file of a volume that is read each time.
func (m *mounted) pod(volume string) (fd int) {
	m.t.Helper()
	fd, err := open(filepath.Join(volume, "pod"))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// another opens that file of another volume.
func (m *mounted) another() (fd int) {
	m.t.Helper()
	other := volume.Record{Dir: "/other", PodUID: uid}
	if err := m.store.Put(other); err != nil {
		m.t.Fatal(err)
	}
	return m.pod(filepath.Join(m.root, other.ID().String()))
}

// serveSlowly serves until the test ends, and counts what is read.
func (m *mounted) serveSlowly() (*connection.Connection, *atomic.Int64) {
	m.t.Helper()
	fs := slow{m.fs, new(atomic.Int64)}
	return m.serveWith(fs), fs.reads
}

// serveWith serves the volumes by another file system until the test ends.
func (m *mounted) serveWith(fs connection.FileSystem) *connection.Connection {
	m.t.Helper()
	c, err := connection.New(m.device, m.agreed, fs, buffers(m.t, 2), new(counters.Counters), func(problem string) { m.t.Error(problem) })
	if err != nil {
		m.t.Fatal(err)
	}
	m.serveToTheEnd(c)
	return c
}

// The standby kills who gives no sign of life, and many readers are no reason.
func TestProbeUnderALoadThatNeverEnds(t *testing.T) {
	m := mountOne(t)
	c, _ := m.serveSlowly()
	m.hammerOnPod()
	for range 10 {
		alive := make(chan bool, 1)
		go func() { alive <- c.Probe() }()
		select {
		case there := <-alive:
			if !there {
				t.Fatal("it is said to have ended")
			}
		case <-time.After(forever):
			t.Fatal("no sign of life")
		}
	}
}

// In the order in which they come, each read would wait for all the others.
func TestAReaderOfAnotherVolumeWaitsForOneOfEach(t *testing.T) {
	m := mountOne(t)
	if m.agreed.Minor < 40 {
		t.Skip("requests are read ahead on Linux 6.9 and later")
	}
	_, reads := m.serveSlowly()
	fd := m.another()
	m.hammerOnPod()
	var others []int64
	for range 21 {
		before := reads.Load()
		m.read(fd)
		others = append(others, reads.Load()-before-1)
	}
	// On a busy machine, most wait for a CPU besides, before they ask or when they are answered.
	if fewest := slices.Min(others); fewest > hammers/4 {
		t.Errorf("it waits for %d reads of others at least", fewest)
	}
}

// Names that are too long to wait with the others do not overtake them for ever.
func TestLongNamesGetTheirTurnsToo(t *testing.T) {
	m := mountOne(t)
	m.serveSlowly()
	fd := m.another()
	// As a pod has it, which does not come from the root.
	directory, err := unix.Open(m.volume, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(directory) })
	long := strings.Repeat("x", 250)
	m.hammer(func(thread int) {
		var stat unix.Stat_t
		if err := unix.Fstatat(directory, long+string(rune('A'+thread)), &stat, 0); err != unix.ENOENT {
			t.Errorf("a name that is not there: %v", err)
		}
	})
	for range 10 {
		m.read(fd)
	}
}

// A worker that hangs is found out, though others go on.
func TestProbeWaitsForWhoHangs(t *testing.T) {
	m := mountOne(t)
	fs, c := m.serveSlowNames()
	fd := m.pod(m.volume)
	asked := m.ask("hangs")
	fs.hang(t)
	m.read(fd)
	alive := make(chan bool, 1)
	go func() { alive <- c.Probe() }()
	select {
	case <-alive:
		t.Error("a sign of life of one that hangs")
	case <-time.After(100 * time.Millisecond):
	}
	fs.goOn()
	if err := await(t, asked); err != unix.ENOENT {
		t.Error(err)
	}
	select {
	case there := <-alive:
		if !there {
			t.Error("it is said to have ended")
		}
	case <-time.After(forever):
		t.Error("no sign of life")
	}
}
