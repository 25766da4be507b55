package volume

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"slices"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Root is the part of a file system that all drivers have alike: its root, which has a
// directory for each volume, named by the volume's id. A driver's file system embeds it,
// passes requests about these on to it, and answers those about the directories' content
// itself.
//
// A node's number is computed, from the volume's id and a number that the file system
// gives to what it has in a volume: see [Node]. Nothing is kept in memory, so that any process
// can answer a request for what was looked up or opened while another one served.
type Root struct {
	fuse.RawFileSystem // answers ENOSYS to requests that are not defined here
	volumes            Store
	last               *last

	// Check, where it is set, tells what is wrong with a volume's record. The root has no such
	// volume: a mount of it fails with EIO.
	Check func(Record) error
}

// NewRoot returns the root for the volumes of a store.
func NewRoot(volumes Store) Root {
	return Root{RawFileSystem: fuse.NewDefaultRawFileSystem(), volumes: volumes, last: new(last)}
}

// last is the record that was read last. A pod that begins to use its volume asks for the same
// one again and again, and to decode it makes garbage.
type last struct {
	mu     sync.Mutex // guards what follows
	id     ID
	data   []byte // as it was read
	buffer []byte // for the next
	record Record
}

// get reads a record, as [Store.Get] does.
func (r *Root) get(id ID) (Record, error) {
	l := r.last
	l.mu.Lock()
	defer l.mu.Unlock()
	data, err := r.volumes.read(id, slices.Grow(l.buffer[:0], usual))
	if err != nil {
		return Record{}, err
	}
	l.buffer = data
	if l.id == id && bytes.Equal(data, l.data) {
		return l.record, nil
	}
	record, err := r.volumes.decode(id, data)
	if err == nil {
		l.id, l.record, l.data, l.buffer = id, record, data, l.data
	}
	return record, err
}

// Forever is how long the kernel may keep things that never change, in seconds. The kernel
// adds it to its clock, in jiffies, so that it must be far from the largest number.
const Forever = math.MaxInt32

// numberBits are the bits of a node's number that say what it is in its volume.
const numberBits = 64 - idBits

// Node returns the number of a node: 0 is the volume's directory, and the others are for its
// content. The kernel keeps them for as long as the volume is mounted, whatever version of
// the driver serves: the meaning of a number can never change.
func Node(id ID, number uint8) (node uint64) { return uint64(id)<<numberBits | uint64(number) }

// Split is the inverse of [Node]. The root of the file system would be number 1 of volume 0,
// which does not exist: compare with fuse.FUSE_ROOT_ID first.
func Split(node uint64) (id ID, number uint8) {
	return ID(node >> numberBits), uint8(node & (1<<numberBits - 1))
}

// VolumeOf returns the volume of a node. Volumes are served in turn.
func (Root) VolumeOf(node uint64) uint64 { return node >> numberBits }

// Record returns the record of a node's volume. ESTALE: the volume was unmounted, and somebody
// still holds it.
func (r *Root) Record(node uint64) (Record, fuse.Status) {
	id, _ := Split(node)
	record, err := r.get(id)
	return record, statusOf(err, fuse.Status(unix.ESTALE))
}

// Lookup resolves a volume's id in the root. The kernel does not keep the name, because
// volumes come and go.
func (r *Root) Lookup(_ <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	id, err := ParseID(name)
	if err != nil || header.NodeId != fuse.FUSE_ROOT_ID {
		return fuse.ENOENT
	}
	record, err := r.get(id)
	if err == nil && r.Check != nil {
		err = r.Check(record)
	}
	if err == nil {
		record.Entry(0, out)
		out.Attr, out.AttrValid = record.attributes(), Forever
	}
	return statusOf(err, fuse.ENOENT)
}

// Entry fills in the node that a number stands for in the volume, for the answer to a lookup.
func (r Record) Entry(number uint8, out *fuse.EntryOut) {
	out.NodeId = Node(r.ID(), number)
	// Linux 5.14 and later gives up an inode whose generation has changed
	// (fs/fuse/dir.c, fuse_stale_inode), so that a directory that is mounted for another pod
	// does not show cached content of the one before.
	out.Generation = r.Generation()
}

// GetAttr answers for the root and for the directories of volumes.
func (r *Root) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		// It is root's only, because it lists every pod of the node.
		out.Attr = fuse.Attr{Ino: fuse.FUSE_ROOT_ID, Mode: fuse.S_IFDIR | 0o700, Nlink: 2}
		// They never change. Before Linux 4.20, statx(2) would ask for expired ones in spite
		// of its flags, even a daemon that hangs.
		out.AttrValid = Forever
		return fuse.OK
	}
	record, status := r.Record(in.NodeId)
	if status.Ok() {
		out.Attr, out.AttrValid = record.attributes(), Forever
	}
	return status
}

// attributes are those of the volume's directory. They never change.
func (r Record) attributes() fuse.Attr {
	attr := fuse.Attr{Ino: Node(r.ID(), 0), Mode: fuse.S_IFDIR | 0o555, Nlink: 2}
	attr.SetTimes(&r.Mounted, &r.Mounted, &r.Mounted)
	return attr
}

// OpenDir accepts. The default's ENOSYS would make the kernel cache the listings
// (fs/fuse/file.c, fuse_file_open).
func (*Root) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

// ReadDir lists the volumes by their ids, which give their offsets as well: one that comes or
// goes during a listing moves no other.
func (r *Root) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	ids, err := r.volumes.IDs()
	if err != nil || !Dots(in, out) {
		return statusOf(err, fuse.EIO)
	}
	last := ID(max(in.Offset, FirstOffset) - FirstOffset)
	next, _ := slices.BinarySearch(ids, last+1)
	for _, id := range ids[next:] {
		e := fuse.DirEntry{Name: id.String(), Mode: fuse.S_IFDIR, Ino: Node(id, 0), Off: FirstOffset + uint64(id)}
		if !out.AddDirEntry(e) {
			break
		}
	}
	return fuse.OK
}

// FirstOffset is the offset in a listing after "." and "..".
const FirstOffset = 2

// Dots lists "." and "..", with which every listing begins, and reports whether there is room for
// more. Nothing is remembered between the requests of one listing: the offset of an
// entry must say all that is needed to go on after it, also in a listing that another
// process began.
func Dots(in *fuse.ReadIn, out *fuse.DirEntryList) bool {
	for i, name := range []string{".", ".."} {
		e := fuse.DirEntry{Name: name, Mode: fuse.S_IFDIR, Ino: in.NodeId, Off: uint64(i) + 1}
		if in.Offset <= uint64(i) && !out.AddDirEntry(e) {
			return false
		}
	}
	return true
}

// StatFs tells monitoring that this file system stores nothing.
func (*Root) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Bsize: 4096, Frsize: 4096, NameLen: 255}
	return fuse.OK
}

// statusOf is the answer for an error of the store; missing is that for a volume that has no
// record.
func statusOf(err error, missing fuse.Status) fuse.Status {
	switch {
	case err == nil:
		return fuse.OK
	case errors.Is(err, fs.ErrNotExist):
		return missing
	}
	return fuse.EIO
}
