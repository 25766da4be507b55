package connection_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	podinfo "example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/volume"
)

// counting counts how often the kernel asks for attributes.
type counting struct {
	*podinfo.FS
	asked atomic.Int32
	more  atomic.Uint64 // bytes in every size: as if the process that asks had a longer PID
}

func (c *counting) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	c.asked.Add(1)
	status := c.FS.GetAttr(cancel, in, out)
	out.Size += c.more.Load()
	return status
}

// serveCounting serves until stop is called.
func (m *mounted) serveCounting(agreed connection.Params) (c *counting, stop func()) {
	m.t.Helper()
	c = &counting{FS: m.fs}
	conn, err := connection.New(m.device, agreed, c, buffers(m.t, 2), new(counters.Counters), func(problem string) { m.t.Error(problem) })
	if err != nil {
		m.t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- conn.Serve() }()
	return c, func() {
		conn.Stop()
		if err := <-result; err != nil {
			m.t.Error(err)
		}
	}
}

// introduce looks the volume up as the mount call-out does, which has a PID of its own.
func (m *mounted) introduce(t *testing.T, c *counting) {
	t.Helper()
	m.lookUpAliases(t, c)
	if err := lookUp(m.volume); err != nil {
		t.Fatal(err)
	}
}

func (m *mounted) lookUpAliases(t *testing.T, c *counting) {
	t.Helper()
	c.more.Store(3)
	defer c.more.Store(0)
	record := m.record(t)
	for _, number := range m.fs.VaryingSizes() {
		alias := connection.Alias(volume.Node(record.ID(), number), record.Generation())
		if err := lookUp(filepath.Join(m.root, alias)); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *mounted) record(t *testing.T) volume.Record {
	t.Helper()
	id, err := volume.ParseID(filepath.Base(m.volume))
	if err != nil {
		t.Fatal(err)
	}
	record, err := m.store.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func lookUp(path string) error {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat)
	if err != nil {
		err = &os.PathError{Op: "look up", Path: path, Err: err}
	}
	return err
}

// own is what this process reads in pod.
var own = strconv.Itoa(os.Getpid()) + "\n"

// checkSizes looks at the size in all ways that there are.
func (m *mounted) checkSizes(t *testing.T) {
	t.Helper()
	path := filepath.Join(m.volume, "pod")
	fd, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var stat, fstat unix.Stat_t
	if err := errors.Join(unix.Stat(path, &stat), unix.Fstat(fd, &fstat)); err != nil {
		t.Fatal(err)
	}
	if want := int64(len(own)); stat.Size != want || fstat.Size != want {
		t.Errorf("stat says %d, fstat %d, want %d", stat.Size, fstat.Size, want)
	}
	if got, err := readAt0(fd); got != own || err != nil {
		t.Errorf("%q, %v; want %q", got, err, own)
	}
}

// asks is how often the kernel asks for attributes in an open and a close.
func (m *mounted) asks(t *testing.T, c *counting, name string) float64 {
	t.Helper()
	const times = 50
	before := c.asked.Load()
	for range times {
		fd, err := open(filepath.Join(m.volume, name))
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	return float64(c.asked.Load()-before) / times
}

// With the tests of sizes, it says whether a kernel does with marks what is needed here.
func TestToOpenWhatVariesTakesNoAttributes(t *testing.T) {
	m := mountOne(t)
	c, stop := m.serveCounting(m.agreed)
	defer stop()
	m.introduce(t, c)
	for range 3 { // a look does not change that
		for _, name := range []string{"pod", "pod.nodename"} {
			if n := m.asks(t, c, name); n != 0 {
				t.Errorf("%s: the kernel asks %.2f times for attributes in an open", name, n)
			}
		}
		m.checkSizes(t)
	}
}

// Where nobody has introduced the files, or the kernel has dropped them, or cannot do it, all
// is right, but slower.
func TestSizesAreRightAlsoWhereOpensAsk(t *testing.T) {
	for name, marks := range map[string]bool{"not introduced": true, "without marks": false} {
		t.Run(name, func(t *testing.T) {
			m := mountOne(t)
			m.agreed.Marks = marks
			c, stop := m.serveCounting(m.agreed)
			defer stop()
			m.checkSizes(t)
			if n := m.asks(t, c, "pod"); n != 1 {
				t.Errorf("the kernel asks %.2f times for attributes in an open", n)
			}
			m.checkSizes(t)
		})
	}
}

// Nothing that another version must know of is agreed on.
func TestAVersionWithoutMarksCanGoOn(t *testing.T) {
	m := mountOne(t)
	c, stop := m.serveCounting(m.agreed)
	m.introduce(t, c)
	m.checkSizes(t)
	stop()
	for _, marks := range []bool{false, true} {
		m.agreed.Marks = marks
		_, stop = m.serveCounting(m.agreed)
		for range 3 {
			m.checkSizes(t)
		}
		stop()
	}
}

// An introduction while a process has the file, as when a volume is mounted again, leaves the
// size unknown.
func TestAFileThatIsInUseIsNotIntroduced(t *testing.T) {
	m := mountOne(t)
	c, stop := m.serveCounting(m.agreed)
	defer stop()
	fd, err := open(filepath.Join(m.volume, "pod"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	m.lookUpAliases(t, c)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Size != int64(len(own)) {
		t.Errorf("size %d, %v; want %d", stat.Size, err, len(own))
	}
}

func TestTheEndOfWhatVariesIsFound(t *testing.T) {
	m := mountOne(t)
	c, stop := m.serveCounting(m.agreed)
	defer stop()
	m.introduce(t, c)
	fd, err := open(filepath.Join(m.volume, "pod"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	size := int64(len(own))
	for _, try := range []struct {
		offset int64
		whence int
		want   int64
		err    error
	}{
		{0, unix.SEEK_DATA, 0, nil},
		{1, unix.SEEK_DATA, 1, nil},
		{0, unix.SEEK_HOLE, size, nil},
		{size, unix.SEEK_DATA, -1, unix.ENXIO},
		{size, unix.SEEK_HOLE, -1, unix.ENXIO},
		{0, unix.SEEK_END, size, nil},
		{-1, unix.SEEK_END, size - 1, nil},
	} {
		if at, err := unix.Seek(fd, try.offset, try.whence); at != try.want || !errors.Is(err, try.err) {
			t.Errorf("lseek by %d, whence %d: %d, %v; want %d, %v", try.offset, try.whence, at, err, try.want, try.err)
		}
	}
	m.checkSizes(t)
}

// An alias is found in the root only, which no pod reaches, and only of a file that varies.
func TestAnAliasIsFoundInTheRootOnly(t *testing.T) {
	m := mountOne(t)
	_, stop := m.serveCounting(m.agreed)
	defer stop()
	record := m.record(t)
	varies := connection.Alias(volume.Node(record.ID(), m.fs.VaryingSizes()[0]), record.Generation())
	const podUID = 1
	for _, path := range []string{
		filepath.Join(m.volume, varies),
		filepath.Join(m.root, connection.Alias(volume.Node(record.ID(), podUID), record.Generation())),
		filepath.Join(m.root, connection.Alias(fuse.FUSE_ROOT_ID, 0)),
		filepath.Join(m.root, "0"+varies),
	} {
		if err := lookUp(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, want that there is none", err)
		}
	}
	if err := lookUp(filepath.Join(m.root, varies)); err != nil {
		t.Error(err)
	}
}
