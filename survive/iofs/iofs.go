// Package iofs serves a tree of package io/fs whose content does not change, as a file system that
// survives: a zip archive, an embed.FS, a directory. A driver's field FileSystem is one call of
// [New]. Each of the driver's volumes shows the whole tree.
//
// # Node ids
//
// When a process starts, [New] reads the names and attributes of the whole tree. A node's id is
// computed: 63 bits of the SHA-256 of its path, and of the size and the modification time of what
// is no directory. So the next process finds the same nodes, in whatever order they are looked up.
// If two paths of a tree have the same id, which takes luck of one in 10⁹ with 100,000 names, the
// tree is refused with an error that names both.
//
// # Content
//
// The tree must be the same in every process, attributes included. If it is not, as with another
// version of an archive, nothing is promised. What is open and has another size or modification
// time then fails with ESTALE, rather than to mix two contents; the kernel may show names and
// attributes of before until it forgets them. Unmount first.
//
// A file is read by offset where it is an [io.ReaderAt]. Any other file is a stream, such as each
// file of archive/zip. Up to 32 are kept open, each where it was read last, so that reading in
// order costs every byte once, and memory does not depend on a file's size. A read before that
// place, or the first one after a take-over, reads the file from its beginning. Where that takes
// more than two seconds, the reader gets EINTR, and a further read goes on from there: Go, Python
// and the core utilities read again by themselves. A stream that ends before its size, goes on
// after it, or fails its checksum at the end, fails with EIO; the log says why.
//
// # What is shown
//
// Regular files, directories, and symbolic links: by [fs.ReadLinkFS], and where the tree has no
// such method, a link's target is its content, as in a zip archive. Anything else is left out, with
// names that no file can have. Permissions are those of [fs.FileInfo], without the setuid, setgid
// and sticky bits. The owner is root, or the one of a *syscall.Stat_t that FileInfo.Sys returns.
//
// The process that serves may open nothing but the driver's input and what its field Reads lists,
// as a user without rights. It holds the names and attributes of the tree: for 100,000 names about
// 10 MB, beside what the tree itself needs. The most is half a million names, and ten seconds to
// read them.
package iofs

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// FS is the file system of a tree.
type FS struct {
	volume.Root
	site  survive.Site
	tree  *tree // nil in a call-out
	files files
	ids   atomic.Pointer[[]volume.ID] // the volumes, when an unknown node was last asked for

	mu       sync.Mutex // guards what follows
	reported map[string]bool
}

var _ survive.FileSystem = (*FS)(nil)
var _ survive.VolumeMapper = (*FS)(nil)
var _ survive.NonBlocker = (*FS)(nil)

// New returns the file system of the tree that open returns. In the call-out that mounts, it does
// not call open. If open fails, or the tree cannot be read, New panics with the error: the mount
// then fails, and its error says that.
func New(site survive.Site, open func() (fs.FS, error)) *FS {
	f := &FS{Root: volume.NewRoot(site.Volumes), site: site, reported: map[string]bool{}}
	if site.CallOut {
		return f
	}
	content, err := open()
	if err == nil {
		f.tree, err = newTree(content)
	}
	if err != nil {
		panic(fmt.Errorf("the tree cannot be served: %w", err))
	}
	return f
}

// A node's id is odd below the directory of a volume, and has what a node is in the tree and the
// volume's id in the other bits: a directory has one node in each volume. The directories of
// volumes have even ids, see [volume.Node], and the root of the file system has 1, which would be
// the hash that is a volume's id.
func nodeOf(id volume.ID, at *node) uint64 {
	if at.path == "." {
		return volume.Node(id, 0)
	}
	return (at.hash^uint64(id))<<1 | 1
}

// find returns the volume and the node of the tree that an id stands for; nil: none.
func (f *FS) find(id uint64) (volume.ID, *node) {
	if id == fuse.FUSE_ROOT_ID {
		return 0, nil
	}
	if of, number := volume.Split(id); id&1 == 0 {
		if number != 0 {
			return 0, nil
		}
		return of, &f.tree.nodes[0]
	}
	if known := f.ids.Load(); known != nil {
		if of, at := f.findIn(*known, id); at != nil {
			return of, at
		}
	}
	all, err := f.site.Volumes.IDs()
	if err != nil {
		return 0, nil
	}
	f.ids.Store(&all)
	return f.findIn(all, id)
}

func (f *FS) findIn(volumes []volume.ID, id uint64) (volume.ID, *node) {
	for _, of := range volumes {
		if at := f.tree.byHash(id>>1 ^ uint64(of)); at != nil {
			return of, at
		}
	}
	return 0, nil
}

// VolumeOf returns the volume of a node. Volumes are served in turn.
func (f *FS) VolumeOf(id uint64) uint64 {
	of, _ := f.find(id)
	return uint64(of)
}

// NeverBlocks tells that names and directories are in memory.
func (f *FS) NeverBlocks(id uint64, names bool) bool {
	_, at := f.find(id)
	return names || at == nil || at.isDir()
}

// Lookup resolves a volume's id in the root, or a name in a directory.
func (f *FS) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if header.NodeId == fuse.FUSE_ROOT_ID {
		status := f.Root.Lookup(cancel, header, name, out)
		out.Attr.Nlink = f.tree.nodes[0].nlink
		return status
	}
	of, dir := f.find(header.NodeId)
	if dir == nil {
		return fuse.Status(unix.ESTALE)
	}
	at := f.tree.child(dir, name)
	if at == nil {
		return fuse.ENOENT
	}
	out.NodeId = nodeOf(of, at)
	out.Attr = at.attributes(out.NodeId)
	out.EntryValid, out.AttrValid = volume.Forever, volume.Forever
	return fuse.OK
}

// GetAttr answers stat(2).
func (f *FS) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	_, at := f.find(in.NodeId)
	if at == nil || at == &f.tree.nodes[0] {
		status := f.Root.GetAttr(cancel, in, out)
		if at != nil {
			out.Attr.Nlink = at.nlink
		}
		return status
	}
	out.Attr, out.AttrValid = at.attributes(in.NodeId), volume.Forever
	return fuse.OK
}

// Open has the kernel keep what it has read: it does not change.
func (f *FS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if _, at := f.find(in.NodeId); at == nil {
		return fuse.Status(unix.ESTALE)
	}
	out.OpenFlags = fuse.FOPEN_NOFLUSH | fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// Read reads a file from an offset.
func (f *FS) Read(_ <-chan struct{}, in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	_, at := f.find(in.NodeId)
	if at == nil {
		return nil, fuse.Status(unix.ESTALE)
	}
	n, err := f.files.read(f.tree.content, at, buffer, int64(in.Offset))
	if err != nil {
		return nil, f.statusOf(at, err)
	}
	return fuse.ReadResultData(buffer[:n]), fuse.OK
}

// Readlink resolves a symbolic link.
func (f *FS) Readlink(_ <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	_, at := f.find(header.NodeId)
	if at == nil {
		return nil, fuse.Status(unix.ESTALE)
	}
	target, err := f.tree.readLink(at)
	if err != nil {
		return nil, f.statusOf(at, err)
	}
	return target, fuse.OK
}

// ReadDir lists the root, or a directory. An entry's offset is its place in the order of names.
func (f *FS) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return f.Root.ReadDir(cancel, in, out)
	}
	of, dir := f.find(in.NodeId)
	if dir == nil {
		return fuse.Status(unix.ESTALE)
	}
	if !volume.Dots(in, out) {
		return fuse.OK
	}
	children := f.tree.children(dir)
	for next := max(in.Offset, volume.FirstOffset) - volume.FirstOffset; next < uint64(len(children)); next++ {
		at := &children[next]
		e := fuse.DirEntry{Name: at.name(), Mode: at.mode, Ino: nodeOf(of, at), Off: volume.FirstOffset + next + 1}
		if !out.AddDirEntry(e) {
			break
		}
	}
	return fuse.OK
}

// statusOf is the answer for an error, which the log has once for each file.
func (f *FS) statusOf(at *node, err error) fuse.Status {
	var errno unix.Errno
	if errors.Is(err, errLate) {
		return fuse.EINTR
	}
	const most = 100
	f.mu.Lock()
	isNew := !f.reported[at.path] && len(f.reported) < most
	if isNew {
		f.reported[at.path] = true
	}
	f.mu.Unlock()
	if isNew {
		f.site.Report(fmt.Sprintf("read %.200q: %v", at.path, err))
	}
	if errors.As(err, &errno) {
		return fuse.Status(errno)
	}
	return fuse.EIO
}
