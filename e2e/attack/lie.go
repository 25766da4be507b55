package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
)

// Lie returns the file system of a process that somebody has taken over, or that cannot serve. The
// version of the build says how: "link:PATH" makes each volume a symbolic link, "silent" never
// answers, "once" finds a volume that does not exist, once and for ever, and then is silent about
// it, "stuck" waits for itself, and "stays" marks the content of its files. "hangs" and "exits" do
// so before they serve, and "opens:PATH" opens a file, which it needs. All others are honest.
func Lie(version, mountPoint string, files fuse.RawFileSystem) fuse.RawFileSystem {
	full := files.(whole)
	switch version {
	case "hangs":
		time.Sleep(time.Hour)
		fallthrough
	case "exits":
		os.Exit(1)
	case "silent":
		return hostile{whole: full}
	case "once":
		return &once{whole: full}
	case "stuck":
		return stuck{full, mountPoint}
	case "stays":
		return marked{full}
	case "files":
		return filed{full}
	}
	if path, opens := strings.CutPrefix(version, "opens:"); opens {
		if _, err := os.Open(path); err != nil {
			panic(err)
		}
	}
	if target, links := strings.CutPrefix(version, "link:"); links {
		return hostile{full, target, links}
	}
	return files
}

// whole is a file system with all that it may also be: see package survive.
type whole interface {
	fuse.RawFileSystem
	VolumeOf(node uint64) (volume uint64)
	NeverBlocks(node uint64, names bool) bool
}

type hostile struct {
	whole
	target string
	links  bool
}

func (h hostile) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	status := h.whole.Lookup(cancel, header, name, out)
	if header.NodeId == fuse.FUSE_ROOT_ID && h.links {
		out.Mode = fuse.S_IFLNK | 0o777
	} else if header.NodeId == fuse.FUSE_ROOT_ID {
		select {}
	}
	return status
}

func (h hostile) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	return []byte(h.target), fuse.OK
}

type once struct {
	whole
	asked atomic.Bool
}

func (o *once) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if _, err := volume.ParseID(name); err == nil || header.NodeId != fuse.FUSE_ROOT_ID {
		return o.whole.Lookup(cancel, header, name, out)
	}
	if o.asked.Swap(true) {
		select {}
	}
	const forever = 1 << 40 // seconds
	out.NodeId, out.EntryValid, out.AttrValid = 1<<60, forever, forever
	out.Mode, out.Nlink = fuse.S_IFDIR|0o755, 2
	return fuse.OK
}

// stuck is a process that waits in the kernel for an answer that only it could give, when
// a file is read and its PID is in "stuck" in the run directory. Not even SIGKILL ends
// it, then: what it has open stays open, and it keeps its locks.
type stuck struct {
	whole
	mountPoint string
}

func (s stuck) named() bool {
	pid, _ := os.ReadFile(filepath.Join(filepath.Dir(s.mountPoint), "stuck"))
	return string(pid) == fmt.Sprintln(os.Getpid())
}

func (s stuck) Read(cancel <-chan struct{}, in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	if s.named() {
		go s.wait()
	}
	return s.whole.Read(cancel, in, buffer)
}

// wait waits in a thread that is not the process's first. That one ends when the process is killed,
// so that everybody sees a zombie.
func (s stuck) wait() {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		go s.wait()
		select {}
	}
	_ = unix.Statfs(s.mountPoint, new(unix.Statfs_t))
}

func (s stuck) StatFs(cancel <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if s.named() {
		select {}
	}
	return s.whole.StatFs(cancel, in, out)
}

// NeverBlocks has StatFs wait where it keeps nobody else waiting.
func (s stuck) NeverBlocks(node uint64, names bool) bool {
	return (names || node != fuse.FUSE_ROOT_ID) && s.whole.NeverBlocks(node, names)
}

type marked struct{ whole }

func (marked) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	text := "stays"
	return fuse.ReadResultData([]byte(text[min(int(in.Offset), len(text)):])), fuse.OK
}

// filed has the kernel mark a root bad, for as long as that is mounted.
type filed struct{ whole }

func (f filed) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	id, _ := volume.Split(header.NodeId)
	switch name {
	case "root":
		out.NodeId = fuse.FUSE_ROOT_ID
	case "volume":
		out.NodeId = volume.Node(id, 0)
	default:
		return f.whole.Lookup(cancel, header, name, out)
	}
	out.Mode, out.Nlink = fuse.S_IFREG|0o444, 1
	return fuse.OK
}
