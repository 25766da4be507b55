package fs

import (
	"errors"
	"math"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/volume"
)

// forever is a validity in seconds. The kernel adds it to its clock, in
// jiffies, so that it must be far from the largest number.
const forever = math.MaxInt32

// Lookup resolves a volume's id in the root, or a name in a volume.
func (f *FS) Lookup(_ <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if header.NodeId == fuse.FUSE_ROOT_ID {
		id, err := volume.ParseID(name)
		if err != nil {
			return fuse.ENOENT
		}
		return f.lookup(header, id, directory, out)
	}
	id, k := split(header.NodeId)
	if k != directory {
		return fuse.ENOENT
	}
	e, known := entryByName(name)
	if !known {
		return f.lookupFact(header.NodeId, name, out)
	}
	out.EntryValid = forever
	return f.lookup(header, id, e.kind, out)
}

func (f *FS) lookup(header *fuse.InHeader, id volume.ID, k kind, out *fuse.EntryOut) fuse.Status {
	record, err := f.records.get(id)
	if errors.Is(err, os.ErrNotExist) {
		return fuse.ENOENT
	} else if err != nil {
		return fuse.EIO
	}
	if e, known := entryByKind(k); known && !e.in(record) {
		return fuse.ENOENT
	}
	out.NodeId = nodeID(id, k)
	// Linux 5.14 and later gives up an inode whose generation has changed
	// (fs/fuse/dir.c, fuse_stale_inode), so that a directory that is mounted for
	// another pod does not show what is cached of the one before.
	out.Generation = record.Generation()
	out.AttrValid = f.attributes(record, out.NodeId, header, &out.Attr)
	return fuse.OK
}

// GetAttr answers stat(2) where the kernel has no valid attributes.
func (f *FS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		rootAttributes(&out.Attr)
		// They never change; and before Linux 4.20, statx(2) would ask for them
		// whatever it is told, also of a daemon that hangs.
		out.AttrValid = forever
		return fuse.OK
	}
	if isFact(in.NodeId) {
		return f.factAttributes(in.NodeId, out)
	}
	record, _, status := f.record(in.NodeId)
	if status.Ok() {
		out.AttrValid = f.attributes(record, in.NodeId, &in.InHeader, &out.Attr)
	}
	return status
}

// record is the record of a node that the kernel knows. What is in a dynamic file
// does not depend on it, and nobody reads it for that. ESTALE: the volume was
// unmounted, and somebody still holds it.
func (f *FS) record(node uint64) (volume.Record, kind, fuse.Status) {
	id, k := split(node)
	if k.dynamic() {
		return volume.Record{}, k, fuse.OK
	}
	record, err := f.records.get(id)
	if errors.Is(err, os.ErrNotExist) {
		return record, k, fuse.Status(unix.ESTALE)
	} else if err != nil {
		return record, k, fuse.EIO
	}
	return record, k, fuse.OK
}

// rootAttributes make the root root's only: it lists every pod of the node.
func rootAttributes(attr *fuse.Attr) {
	attr.Ino = fuse.FUSE_ROOT_ID
	attr.Mode = fuse.S_IFDIR | 0o700
	attr.Nlink = 2
}

// attributes fills in the attributes of a node for the process that asks, and
// returns for how many seconds they are valid.
func (f *FS) attributes(record volume.Record, node uint64, caller *fuse.InHeader, attr *fuse.Attr) (valid uint64) {
	_, k := split(node)
	attr.Ino = node
	changed := record.Mounted
	switch k {
	case directory:
		attr.Mode = fuse.S_IFDIR | 0o555
		attr.Nlink = 2
	case pid:
		attr.Size = uint64(len(pidTarget))
	default:
		var buffer [maxContent]byte
		// A caller who could not read the file gets no error for asking its size.
		content, _ := f.content(buffer[:0], record, k, caller.Pid)
		attr.Size = uint64(len(content))
	}
	if e, known := entryByKind(k); known {
		attr.Mode = e.mode
		attr.Nlink = 1
	}
	valid = forever
	if k.dynamic() {
		valid = 0
		changed = time.Now()
	}
	attr.SetTimes(&changed, &changed, &changed)
	return valid
}
