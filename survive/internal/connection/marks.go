package connection

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/survive/volume"
)

// A file whose size depends on who asks has, for each, the size of what that would read. So the
// kernel would ask for the attributes at every open, since it checks permissions. The connection
// has it keep those that a permission depends on, where it can.
//
// The kernel asks for attributes when their time is over, or when one that is wanted is
// marked as unknown (fs/fuse/dir.c, fuse_update_get_attr). A permission depends on mode, user
// and group only (fuse_permission). So the attributes of a file that varies are valid for
// ever, and the size is marked: open(2) asks nobody, and stat(2) asks every time.
//
// The mark is FUSE_NOTIFY_STORE of no bytes, beyond the end of the file. It changes nothing
// but this: size, blocks and times become unknown, and the inode gets a new version
// (fs/fuse/dev.c, fuse_notify_store; fs/fuse/file.c, fuse_write_update_attr). The kernel does
// not keep attributes from a reply to a request that is older than that
// (fs/fuse/inode.c, fuse_change_attributes). So after a mark before the reply to GETATTR, the
// reply goes to who asked and to nobody else, and the mark stays. To mark waits for nobody:
// nothing is stored, so that no page is locked, and an inode that the kernel is giving up, for
// which it would wait, has no request under way.
//
// Only a reply that the kernel keeps makes attributes valid, and it takes the marks away: until
// the next mark, everybody who has the file sees the size in that reply. So it is given to
// the call-out that mounts, before it binds the volume, when nobody can have the file. The
// call-out looks the file up in the root of the file system, which no pod can reach, by a
// name that is found only there, [Alias]. Then it looks the volume up, and the files are marked
// before the reply. A pod finds a file by a look-up of its own name, and there is a mark before
// that reply, too. No other reply is kept for longer than nothing, whatever process serves,
// or dies.
//
// So a file is as on a kernel without marks, and its attributes expire at once, when
//   - the kernel drops the inode, for want of memory, and makes it again for a pod;
//   - somebody seeks the end of the file: see GetAttr;
//   - a process answers that has no marks, of another version.

// marking is a FileSystem some of whose files vary, with marks.
type marking struct {
	FileSystem
	varying []uint8
	device  *device
}

// withMarks adds marks to a file system that needs them, where the kernel can.
func withMarks(fs FileSystem, agreed Params, d *device) FileSystem {
	if varier, is := fs.(sizeVarier); is && agreed.Marks {
		return marking{fs, varier.VaryingSizes(), d}
	}
	return fs
}

// varies tells whether a node is one that varies. Nothing is in volume 0: the root only looks so.
func (m marking) varies(node uint64) bool {
	id, number := volume.Split(node)
	return id != 0 && slices.Contains(m.varying, number)
}

// Alias is the name in the root of the file system by which the call-out that mounts a volume
// looks a node up, before anybody else can. The generation is that of all that is in the volume:
// [volume.Record.Generation].
func Alias(node, generation uint64) string { return fmt.Sprintf("%016x.%x", node, generation) }

// ofAlias returns what an alias was made of; node 0: it is none.
func ofAlias(alias string) (node, generation uint64) {
	first, second, _ := strings.Cut(alias, ".")
	node, err := strconv.ParseUint(first, 16, 64)
	generation, err2 := strconv.ParseUint(second, 16, 64)
	if err != nil || err2 != nil || Alias(node, generation) != alias {
		return 0, 0
	}
	return node, generation
}

// aliasTime is for how long the kernel keeps an alias. It drops a name that has expired
// as soon as nobody uses it (fs/fuse/dir.c, fuse_dentry_delete), and the inode with it;
// later, both stay until there is no memory left, or the alias is looked up again.
const aliasTime = 100 * time.Millisecond

// Lookup marks a file that varies, and all of a volume with the volume, before the reply.
func (m marking) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	inRoot := header.NodeId == fuse.FUSE_ROOT_ID
	if node, generation := ofAlias(name); inRoot && m.varies(node) {
		return m.lookupAlias(cancel, header, node, generation, out)
	}
	status := m.FileSystem.Lookup(cancel, header, name, out)
	switch {
	case !status.Ok() || out.NodeId == 0:
	case inRoot:
		id, _ := volume.Split(out.NodeId)
		for _, number := range m.varying {
			_ = m.mark(volume.Node(id, number)) // where there is one
		}
	case m.varies(out.NodeId):
		_ = m.mark(out.NodeId) // ENOENT: the inode is made now, and its attributes expire at once
		out.AttrValid, out.AttrValidNsec = 0, 0
	}
	return status
}

// keptSize is the size that stays in the inode. Some system calls go by it and not by stat(2)'s:
// sendfile(2), which is to fail, so that programs use read(2), and would return the end of an
// empty file; lseek(2) at times, see GetAttr; and copy_file_range(2) from one FUSE mount to
// another, which copies no more (fs/read_write.c, generic_copy_file_checks). For all of them, too
// much does no harm: a read ends where the content does.
const keptSize = 1 << 20

// lookupAlias has the kernel keep the attributes, if nobody has the file.
func (m marking) lookupAlias(cancel <-chan struct{}, header *fuse.InHeader, node, generation uint64, out *fuse.EntryOut) fuse.Status {
	ask, file := fuse.GetAttrIn{InHeader: *header}, fuse.AttrOut{}
	ask.NodeId = node
	if status := m.FileSystem.GetAttr(cancel, &ask, &file); !status.Ok() {
		return status
	}
	*out = fuse.EntryOut{NodeId: node, Generation: generation, Attr: file.Attr, EntryValidNsec: uint32(aliasTime)}
	if errors.Is(m.mark(node), unix.ENOENT) {
		out.AttrValid = volume.Forever
		out.Attr.Size = keptSize
	}
	return fuse.OK
}

// GetAttr marks a file that varies before stat(2) gets its attributes. For lseek(2), which
// has a handle, it does not: SEEK_END takes the size from the inode, where the kernel must put
// that of the reply (fs/fuse/file.c, fuse_file_llseek). There the attributes expire at once. If
// the kernel has got a mark or attributes for somebody else since it asked, it does not put it
// there, and the size is the one before: keptSize, or that of another reader. Without marks, it
// is always that of another reader then.
func (m marking) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	status := m.FileSystem.GetAttr(cancel, in, out)
	if !status.Ok() || !m.varies(in.NodeId) {
		return status
	}
	out.AttrValid, out.AttrValidNsec = 0, 0
	if in.Flags()&fuse.FUSE_GETATTR_FH == 0 {
		_ = m.mark(in.NodeId) // without, the attributes expire at once
	}
	return status
}

// Lseek answers SEEK_DATA and SEEK_HOLE where the file system does not: there are no holes. The
// kernel would take the size from the inode, and after an ENOSYS of one file, of all.
func (m marking) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	if status := m.FileSystem.Lseek(cancel, in, out); status != fuse.ENOSYS {
		return status
	}
	var file fuse.AttrOut
	if status := m.FileSystem.GetAttr(cancel, &fuse.GetAttrIn{InHeader: in.InHeader}, &file); !status.Ok() {
		return status
	}
	const seekData, seekHole = 3, 4 // linux/fs.h; the kernel sends no other
	switch {
	case in.Offset >= file.Size:
		return fuse.Status(unix.ENXIO)
	case in.Whence == seekData:
		out.Offset = in.Offset
	case in.Whence == seekHole:
		out.Offset = file.Size
	default:
		return fuse.EINVAL
	}
	return fuse.OK
}

// mark marks a file's size as unknown. ENOENT: the kernel has no such inode.
func (m marking) mark(node uint64) error {
	const (
		notifyStore = 4       // FUSE_NOTIFY_STORE (linux/fuse.h)
		beyond      = 1 << 40 // the end of any file that varies
	)
	notification := struct {
		fuse.OutHeader
		fuse.NotifyStoreOut
	}{
		fuse.OutHeader{Status: notifyStore},
		fuse.NotifyStoreOut{Nodeid: node, Offset: beyond},
	}
	packet := devfuse.Bytes(&notification)
	notification.Length = uint32(len(packet))
	return m.device.write(packet)
}
