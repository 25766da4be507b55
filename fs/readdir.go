package fs

import (
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/volume"
)

// OpenDir accepts. To answer ENOSYS, as the default does, would make the kernel
// cache the listings (fs/fuse/file.c, fuse_file_open).
func (*FS) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

// ReadDir lists the root or a volume. Nothing is remembered between the calls
// of one listing: the offset of an entry says all that is needed to go on after
// it, also in a listing that another process began.
func (f *FS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return f.listRoot(in.Offset, out)
	}
	id, k := split(in.NodeId)
	if k != directory {
		return fuse.ENOTDIR
	}
	record, err := f.records.get(id)
	if err != nil {
		return fuse.Status(unix.ESTALE)
	}
	if listVolume(record, in.Offset, out) {
		f.listFacts(in.Offset, out)
	}
	return fuse.OK
}

// listRoot lists the volumes by their ids, which make their offsets as well: a
// volume that comes or goes while somebody lists moves no other.
func (f *FS) listRoot(offset uint64, out *fuse.DirEntryList) fuse.Status {
	ids, err := f.records.volumes.IDs()
	if err != nil {
		return statusOf(err)
	}
	if !listDots(fuse.FUSE_ROOT_ID, offset, out) {
		return fuse.OK
	}
	last := volume.ID(max(offset, dots) - dots)
	next, _ := slices.BinarySearch(ids, last+1)
	for _, id := range ids[next:] {
		e := fuse.DirEntry{Name: id.String(), Mode: fuse.S_IFDIR, Ino: nodeID(id, directory), Off: dots + uint64(id)}
		if !out.AddDirEntry(e) {
			break
		}
	}
	return fuse.OK
}

// listVolume lists the entries that are not the operator's, and reports whether
// there is room for more.
func listVolume(record volume.Record, offset uint64, out *fuse.DirEntryList) bool {
	id := record.ID()
	if !listDots(nodeID(id, directory), offset, out) {
		return false
	}
	first := max(offset, dots) - dots
	for i := first; i < uint64(len(entries)); i++ {
		e := entries[i]
		if !e.in(record) {
			continue
		}
		if !out.AddDirEntry(fuse.DirEntry{Name: e.name, Mode: e.mode, Ino: nodeID(id, e.kind), Off: dots + i + 1}) {
			return false
		}
	}
	return true
}

// dots is the number of entries that every directory begins with, and the
// offset after them.
const dots = 2

// listDots lists "." and "..", and reports whether there is room for more.
func listDots(node, offset uint64, out *fuse.DirEntryList) bool {
	for i, name := range []string{".", ".."} {
		e := fuse.DirEntry{Name: name, Mode: fuse.S_IFDIR, Ino: node, Off: uint64(i) + 1}
		if offset <= uint64(i) && !out.AddDirEntry(e) {
			return false
		}
	}
	return true
}
