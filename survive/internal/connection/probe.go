package connection

import (
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/volume"
)

// canMark tells whether the kernel may know marks as they are needed here: since protocol
// 7.37, of Linux 6.1. They are there since Linux 5.16; before, a mark would make the file
// longer. Later kernels are those that were tried.
func (p Params) canMark() bool { return p.Minor >= 37 }

// probe is a file system with one file, by which marks are tried, since no document promises
// them: whether the kernel does with them all that marks.go says. The file's size is another
// one at each GETATTR.
type probe struct {
	FileSystem
	asked atomic.Uint64 // GETATTRs of the file
}

var probeNode = volume.Node(1, 1)

func (*probe) VaryingSizes() []uint8 { return []uint8{1} }

// GetAttr counts.
func (p *probe) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		out.Attr = fuse.Attr{Ino: fuse.FUSE_ROOT_ID, Mode: unix.S_IFDIR | 0o700, Nlink: 2}
	} else {
		out.Attr = fuse.Attr{Ino: in.NodeId, Mode: unix.S_IFREG | 0o444, Nlink: 1, Size: p.asked.Add(1)}
	}
	return fuse.OK
}

// marksWork tells whether marks work on the file system that was just mounted on a path, and
// that nobody serves yet.
func marksWork(fd int, agreed Params, mountPoint string) bool {
	if !agreed.canMark() {
		return false
	}
	quiet := func(string) {}
	buffers, err := NewBuffers(1, agreed, quiet)
	if err != nil {
		return false
	}
	agreed.Marks = true
	p := &probe{FileSystem: fuse.NewDefaultRawFileSystem()}
	c, err := New(fd, agreed, p, buffers, new(counters.Counters), quiet)
	if err != nil {
		return false
	}
	result := make(chan bool, 1)
	go func() {
		marks, works := c.protocol.fs.(marking), false
		err := proc.OnThread(func() error {
			if err := leaveDevices(fd); err != nil {
				return err
			}
			works = marks.try(filepath.Join(mountPoint, Alias(probeNode, 0)))
			return nil
		})
		result <- works && err == nil
		c.Stop()
	}()
	const probeTimeout = 5 * time.Second
	defer time.AfterFunc(probeTimeout, c.Stop).Stop()
	if c.Serve() != nil {
		return false
	}
	select {
	case works := <-result:
		return works
	default:
		return false
	}
}

// leaveDevices gives the thread descriptors of its own, and closes all of /dev/fuse among them.
//
// A request that was read waits for its answer, or for the last of these descriptors to be closed;
// not even SIGKILL ends that (fs/fuse/dev.c, request_wait_answer). And what a killed process has
// open is closed when its last thread has ended. So if who asks had the descriptor that serves, a
// process that is killed amid its own request would never end, nor would the locks that it has. All
// others stay: Go's runtime may use its own on any thread.
func leaveDevices(device int) error {
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	names, err := os.ReadDir("/proc/thread-self/fd")
	if err != nil {
		return err
	}
	kind := func(fd int) (of [3]uint32, err error) { // others may be of a file system that hangs, which must not be asked
		var stat unix.Statx_t
		err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat)
		return [3]uint32{uint32(stat.Mode & unix.S_IFMT), stat.Rdev_major, stat.Rdev_minor}, err
	}
	served, err := kind(device)
	if err != nil {
		return os.NewSyscallError("statx", err)
	}
	for _, name := range names {
		number, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		if of, err := kind(number); err == nil && of == served {
			unix.Close(number)
		}
	}
	return nil
}

// try uses the file as the call-out that mounts, and then a pod's processes would.
func (m marking) try(path string) bool {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	const (
		permissions = unix.STATX_MODE | unix.STATX_UID | unix.STATX_GID
		size        = unix.STATX_SIZE
	)
	stat := func(flags, mask int) uint64 {
		var stat unix.Statx_t
		if unix.Statx(fd, "", unix.AT_EMPTY_PATH|flags, mask, &stat) != nil {
			return 0
		}
		return stat.Size
	}
	mark := func() error { // by a thread that has the descriptor
		done := make(chan error)
		go func() { done <- m.mark(probeNode) }()
		return <-done
	}
	kept := func() bool { return stat(unix.AT_STATX_DONT_SYNC, size) == keptSize }
	return kept() && stat(0, size) == keptSize && // nobody is asked
		mark() == nil && kept() &&
		stat(0, size) == 2 && stat(0, size) == 3 && kept() && // each asks, after the look-up
		stat(0, permissions) == keptSize && stat(0, size) == 4 && kept() // in between, nobody did
}
