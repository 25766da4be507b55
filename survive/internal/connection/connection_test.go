package connection_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/volume"
)

const uid = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"

// mounted is a FUSE file system with one volume that nobody serves yet.
type mounted struct {
	t      *testing.T
	device int
	agreed connection.Params
	store  volume.Store
	fs     *fs.FS
	root   string
	volume string // its directory
}

// mountOn mounts, and returns the descriptor that nobody serves yet.
func mountOn(root string) (device int, err error) {
	if device, err = devfuse.Open(unix.O_NONBLOCK); err != nil {
		return -1, err
	}
	point, err := mount.Open(root)
	if err == nil {
		defer point.Close()
		err = point.FUSE(device, mount.Options{Type: "fuse.connection-test", Source: "connection-test", MaxRead: connection.Default.MaxRead})
	}
	if err != nil {
		unix.Close(device)
	}
	return device, err
}

func mountOne(t *testing.T) *mounted {
	t.Helper()
	store := volume.Store{Dir: t.TempDir()}
	record := volume.Record{Dir: "/somewhere", PodUID: uid}
	if err := store.Put(record); err != nil {
		t.Fatal(err)
	}
	m := &mounted{t: t, store: store, fs: fs.New(survive.Site{Volumes: store}), root: t.TempDir()}
	m.volume = filepath.Join(m.root, record.ID().String())
	var err error
	if m.device, err = mountOn(m.root); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(m.device) })
	t.Cleanup(func() {
		if err := unix.Unmount(m.root, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Errorf("unmount %s: %v", m.root, err)
		}
	})
	m.agreed, err = connection.Handshake(m.device, m.fs, connection.Default, forever)
	if err != nil {
		t.Fatal(err)
	}
	if known := m.agreed.Minor >= 37 && m.agreed.Minor <= 45; m.agreed.Marks != known {
		t.Errorf("protocol 7.%d, marks: %v", m.agreed.Minor, m.agreed.Marks)
	}
	// Also on a kernel that nobody has tried yet: see TestToOpenWhatVariesTakesNoAttributes.
	m.agreed.Marks = m.agreed.Minor >= 37
	return m
}

func buffers(t *testing.T, workers int) connection.Buffers {
	t.Helper()
	b, err := connection.NewBuffers(workers, connection.Params{Options: connection.Default}, func(problem string) { t.Error(problem) })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serve serves the file system as a process of its own would: from what was
// recorded of the handshake. wait returns what Serve returned.
func (m *mounted) serve() (c *connection.Connection, wait func() error) {
	m.t.Helper()
	return m.serveFS(m.fs)
}

func (m *mounted) serveFS(fs connection.FileSystem) (c *connection.Connection, wait func() error) {
	m.t.Helper()
	agreed, err := connection.DecodeParams(m.agreed.Encode())
	if err != nil {
		m.t.Fatal(err)
	}
	c, err = connection.New(m.device, agreed, fs, buffers(m.t, 2), new(counters.Counters), func(problem string) { m.t.Error(problem) })
	if err != nil {
		m.t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- c.Serve() }()
	return c, func() error { return <-result }
}

// Whoever was given the connection can take it out of non-blocking mode, for all who have it. The
// worker that waits for a request then gives no sign of life until it is asked for one, as at each
// beat.
func TestADeviceThatSomebodyMakesBlocking(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // would wait for that worker, here with the whole test
	m := mountOne(t)
	block := func() {
		if err := unix.SetNonblock(m.device, false); err != nil {
			t.Error(err)
		}
	}
	block()
	c, wait := m.serve()
	stop := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() {
		for tick := time.Tick(100 * time.Millisecond); ; {
			select {
			case <-tick:
				if !c.Probe() {
					t.Error("there is no sign of life")
				}
			case <-stop:
				return
			}
		}
	})
	var readers sync.WaitGroup
	longest := make([]time.Duration, 2)
	for i := range longest {
		readers.Go(func() {
			for range 20 {
				block()
				begun := time.Now()
				if err := m.check(); err != nil {
					t.Error(err)
				}
				longest[i] = max(longest[i], time.Since(begun))
			}
		})
	}
	readers.Wait()
	t.Logf("readers waited %v at most", longest)
	close(stop)
	beside.Wait()
	block()
	go func() { _ = m.check() }() // after that, or in it, a worker reads, and waits
	time.Sleep(50 * time.Millisecond)
	c.Stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// open opens a file without the runtime's poller. os.Open would add it there, for which
// the kernel asks the file system whether it can be polled.
func open(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func readAt0(fd int) (string, error) {
	buffer := make([]byte, 100)
	n, err := unix.Pread(fd, buffer, 0)
	return string(buffer[:max(n, 0)]), err
}

func (m *mounted) check() error {
	for name, want := range map[string]string{"pod.uid": uid + "\n", "pid": fmt.Sprintln(os.Getpid())} {
		fd, err := open(filepath.Join(m.volume, name))
		if err != nil {
			return err
		}
		data, err := readAt0(fd)
		unix.Close(fd)
		if err != nil {
			return err
		}
		if data != want {
			return fmt.Errorf("%s is %q, want %q", name, data, want)
		}
	}
	entries, err := os.ReadDir(m.volume)
	if err == nil && len(entries) != 4 {
		err = fmt.Errorf("the volume lists %v", entries)
	}
	return err
}

// Readers go on without an error while one server after the other stops at a
// request boundary and the next resumes the connection.
func TestServersFollowEachOtherUnderLoad(t *testing.T) {
	m := mountOne(t)
	c, wait := m.serve()
	var (
		readers sync.WaitGroup
		reads   atomic.Int64
		stop    atomic.Bool
	)
	held, err := open(filepath.Join(m.volume, "pod"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(held)
	for range 4 {
		readers.Go(func() {
			for ; !stop.Load(); reads.Add(1) {
				if err := m.check(); err != nil {
					t.Error(err)
					return
				}
				if data, err := readAt0(held); err != nil || data != fmt.Sprintln(os.Getpid()) {
					t.Errorf("the open file reads %q, %v", data, err)
					return
				}
			}
		})
	}
	for range 50 {
		before := reads.Load()
		c.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		c, wait = m.serve()
		for reads.Load() < before+8 && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	stop.Store(true)
	readers.Wait()
	c.Stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestServeEndsWhenTheFileSystemIsUnmounted(t *testing.T) {
	m := mountOne(t)
	_, wait := m.serve()
	if err := m.check(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(m.root, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// Nothing that was read is lost: a request that waits while nobody serves is
// answered by the one who comes.
func TestARequestWaitsForTheNextServer(t *testing.T) {
	m := mountOne(t)
	c, wait := m.serve()
	c.Stop()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() { answer <- m.check() }()
	select {
	case err := <-answer:
		t.Fatalf("answered by nobody: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	c, wait = m.serve()
	if err := <-answer; err != nil {
		t.Error(err)
	}
	c.Stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestAServerLeavesNoDescriptorOpen(t *testing.T) {
	m := mountOne(t)
	before := descriptors(t)
	for range 10 {
		c, wait := m.serve()
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		c.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	// The runtime's poller may have come into being meanwhile.
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestHandshakeDoesNotWaitForEver(t *testing.T) {
	m := mountOne(t) // its FUSE_INIT has been answered: no other will come
	if _, err := connection.Handshake(m.device, m.fs, connection.Default, 20*time.Millisecond); !errors.Is(err, unix.ETIMEDOUT) {
		t.Errorf("second handshake: %v, want ETIMEDOUT", err)
	}
}

func TestParamsOfAnotherProtocolAreRefused(t *testing.T) {
	for _, text := range []string{
		`{}`, `7`, `{`, `{"format": 0, "major": 7, "maxRead": 65536}`, `{"format": 1, "major": 8, "maxRead": 65536}`,
		`{"format": 1, "major": 7}`, `{"format": 1, "major": 7, "maxRead": 1048576}`, `{"format": 1, "major": 7, "maxRead": -1}`,
	} {
		if p, err := connection.DecodeParams([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, p)
		}
	}
	for _, text := range []string{`{"format": 2, "major": 7, "maxRead": 65536}`, `{"format": 2, "maxRead": "of another type"}`} {
		if _, err := connection.DecodeParams([]byte(text)); !errors.Is(err, volume.ErrNewer) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What was agreed on at the start holds, whatever version serves.
func TestTheDriversChoicesAreRecorded(t *testing.T) {
	want := connection.Params{Format: 1, Major: 7, Minor: 31, Options: connection.Options{MaxRead: connection.MostRead}}
	if got, err := connection.DecodeParams(want.Encode()); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// An upgrade and a downgrade go on with a connection that the other version has agreed on:
// what needs nothing of a server is not recorded, as a version that does not know it would
// refuse to go on.
func TestWhatIsRecordedIsWhatOtherVersionsKnow(t *testing.T) {
	const noExportSupport = 1 << 38 // linux/fuse.h
	if m := mountOne(t); m.agreed.Flags&noExportSupport != 0 {
		t.Errorf("flags %#x are recorded; a version that does not know FUSE_NO_EXPORT_SUPPORT could not go on", m.agreed.Flags)
	}
}

// A feature that the kernel was promised, and this version does not have, must
// not be lost in silence: an upgrade that does so has to fail.
func TestResumeRefusesWhatItCannotKeep(t *testing.T) {
	m := mountOne(t)
	m.agreed.Flags |= 1 << 16 // FUSE_WRITEBACK_CACHE
	if _, err := connection.New(m.device, m.agreed, m.fs, buffers(m.t, 1), new(counters.Counters), func(string) {}); err == nil {
		t.Error("a feature was dropped")
	}
}
