package fs_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// By io_uring(7), the kernel may read in a thread of its own. The answer is the program's all the
// same. What docs/limits.md says of longer reads is the kernel's doing: it does not move the
// position in direct I/O (Linux 6.18, fs/fuse/file.c, fuse_direct_IO). This test says what comes of
// them.
func TestReadsByIOURing(t *testing.T) {
	ring := newRing(t)
	dir := testnode.Install(t).Mount()
	node, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"pod": fmt.Sprintf("%d\n", os.Getpid()), "pod.nodename": node + "\n", "pod.uid": testnode.PodUID + "\n"} {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if got, err := ring.read(file, len(want), 0); err != nil || string(got) != want {
			t.Errorf("%s, as many bytes as it has: %q, %v; want %q", name, got, err, want)
		}
		const position = math.MaxUint64
		first, err := ring.read(file, 100, position)
		again, err2 := ring.read(file, 100, position)
		if err != nil || err2 != nil || !strings.HasPrefix(string(first), want) {
			t.Errorf("%s, more bytes: %q, %v, then %q, %v; want %q first", name, first, err, again, err2, want)
		}
		if len(again) > 0 && name == "pod.uid" {
			t.Errorf("%s has no end: %q", name, again)
		}
		t.Logf("%s: %d bytes by a read of 100, and %d by another one", name, len(first), len(again))
	}
}

// ring is an io_uring(7) for one operation at a time.
type ring struct {
	fd             int
	entry          *ringEntry
	submitted      *uint32 // the tail of the queue of submissions
	completed, end *uint32 // head and tail of that of completions
	mask           uint32
	results        unsafe.Pointer
}

// ringEntry is struct io_uring_sqe (linux/io_uring.h).
type ringEntry struct {
	opcode, flags   uint8
	priority        uint16
	fd              int32
	offset, address uint64
	length          uint32
	_               [36]byte
}

// newRing makes a ring, as io_uring_setup(2) says.
func newRing(t *testing.T) *ring {
	t.Helper()
	var params struct {
		_        [5]uint32
		features uint32
		_        [4]uint32
		// The offsets in the rings.
		sqHead, sqTail, sqMask, sqEntries, sqFlags, sqDropped, sqArray, _ uint32
		_                                                                 uint64
		cqHead, cqTail, cqMask, cqEntries, cqOverflow, cqes, cqFlags, _   uint32
		_                                                                 uint64
	}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno == unix.ENOSYS || errno == unix.EPERM {
		t.Skipf("this machine has no io_uring: %v", errno)
	}
	if errno != 0 {
		t.Fatalf("io_uring_setup: %v", errno)
	}
	t.Cleanup(func() { unix.Close(int(fd)) })
	mapped := func(offset int64) unsafe.Pointer {
		memory, err := unix.Mmap(int(fd), offset, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatalf("map the ring: %v", err)
		}
		t.Cleanup(func() { _ = unix.Munmap(memory) })
		return unsafe.Pointer(unsafe.SliceData(memory))
	}
	const entries = 0x10000000 // IORING_OFF_SQES; both rings are at 0 (IORING_FEAT_SINGLE_MMAP, Linux 5.4)
	rings := mapped(0)
	return &ring{
		fd: int(fd), entry: (*ringEntry)(mapped(entries)),
		submitted: (*uint32)(unsafe.Add(rings, params.sqTail)),
		completed: (*uint32)(unsafe.Add(rings, params.cqHead)), end: (*uint32)(unsafe.Add(rings, params.cqTail)),
		mask: *(*uint32)(unsafe.Add(rings, params.cqMask)), results: unsafe.Add(rings, params.cqes),
	}
}

// read reads so many bytes of a file at an offset.
func (r *ring) read(file *os.File, size int, offset uint64) ([]byte, error) {
	const opRead = 22 // IORING_OP_READ
	buffer := make([]byte, size)
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&buffer[0])
	*r.entry = ringEntry{opcode: opRead, fd: int32(file.Fd()), offset: offset, address: uint64(uintptr(unsafe.Pointer(&buffer[0]))), length: uint32(size)}
	atomic.AddUint32(r.submitted, 1)
	const getEvents = 1 // IORING_ENTER_GETEVENTS
	for submit := uintptr(1); ; submit = 0 {
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), submit, 1, getEvents, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return nil, errno
		}
		at := atomic.LoadUint32(r.completed)
		if at == atomic.LoadUint32(r.end) {
			continue
		}
		result := *(*int32)(unsafe.Add(r.results, 16*(at&r.mask)+8)) // of struct io_uring_cqe
		atomic.StoreUint32(r.completed, at+1)
		if result < 0 {
			return nil, unix.Errno(-result)
		}
		return buffer[:result], nil
	}
}
