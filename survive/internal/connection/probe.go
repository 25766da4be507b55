package connection

import (
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

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

func (*probe) Varying() []uint8 { return []uint8{1} }

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
		result <- c.protocol.fs.(marking).try(filepath.Join(mountPoint, Alias(probeNode, 0)))
		c.Stop()
	}()
	const patience = 5 * time.Second
	defer time.AfterFunc(patience, c.Stop).Stop()
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
	kept := func() bool { return stat(unix.AT_STATX_DONT_SYNC, size) == keptSize }
	return kept() && stat(0, size) == keptSize && // nobody is asked
		m.mark(probeNode) == nil && kept() &&
		stat(0, size) == 2 && stat(0, size) == 3 && kept() && // each asks, after the look-up
		stat(0, permissions) == keptSize && stat(0, size) == 4 && kept() // in between, nobody did
}
