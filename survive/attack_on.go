//go:build attack

package survive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/attack"
	"example.com/pod-info-fuse/survive/volume"
)

// attack tries everything that a confined process must not be able to do, and logs the
// results.
func (n Node) attack() {
	const log = 7 // see package pair
	for _, a := range attack.On(n.RunDir, n.path("connection.json"), os.Getppid(), log) {
		if err := a.Try(); err != nil {
			n.Log("attack refused: %s: %v", a.Name, err)
		} else {
			n.Log("attack succeeded: %s", a.Name)
		}
	}
	n.Log("attacks end")
}

// answering lies about volumes that are looked up, where the version of the build says how:
// "link:PATH" makes each volume a symbolic link, "silent" never answers, "once" finds a
// volume that does not exist, once and for ever, and then is silent about it, "stuck" waits
// for itself, and "stays" marks the content of its files.
func (n Node) answering(files FileSystem) FileSystem {
	full := files.(whole)
	switch n.Version {
	case "stuck":
		return stuck{full, n.fsPath()}
	case "stays":
		return marked{full}
	case "once":
		return &once{whole: full}
	}
	target, links := strings.CutPrefix(n.Version, "link:")
	if links || n.Version == "silent" {
		return hostile{full, target, links}
	}
	return files
}

// whole is a file system with all that it may also be.
type whole interface {
	FileSystem
	Sharer
	Prompter
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
		go func() { _ = unix.Statfs(s.mountPoint, new(unix.Statfs_t)) }()
	}
	return s.whole.Read(cancel, in, buffer)
}

func (s stuck) StatFs(cancel <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if s.named() {
		select {}
	}
	return s.whole.StatFs(cancel, in, out)
}

type marked struct{ whole }

func (marked) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	text := "stays"
	return fuse.ReadResultData([]byte(text[min(int(in.Offset), len(text)):])), fuse.OK
}
