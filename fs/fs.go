package fs

import (
	"errors"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/facts"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// FS serves the volumes of a store.
type FS struct {
	volume.Root
	threads threads
	facts   facts.Dir

	report func(problem string) // logs each fact that is left out, once for each reason

	versions versions
	look     look
	mounts   mounts
}

var _ fuse.RawFileSystem = (*FS)(nil)

// New returns the file system of a site's volumes, and of the operator's facts in its
// input.
func New(site survive.Site) *FS {
	f := &FS{Root: volume.NewRoot(site.Volumes), facts: FactsIn(site.Input), report: site.Report}
	// A newer version that could not take over mounts a volume that this one cannot read, and
	// must not succeed with files that are errors.
	f.Root.Check = CheckRecord
	return f
}

// NeverBlocks tells whether requests about a node, or about names in it, wait for nothing but a
// record. Requests about names wait for the disk of the facts where the operator has some, and so
// do requests about a version of a fact that is not kept any more.
func (f *FS) NeverBlocks(node uint64, names bool) bool {
	if names {
		return f.facts.File == nil || node == fuse.FUSE_ROOT_ID
	}
	if _, k := volume.Split(node); k != nodeFact {
		return true
	}
	_, kept := f.versions.get(node) // it stays for the answer, unless the answer has to wait for long
	return kept
}

// VaryingSizes returns the kinds of files whose size depends on the reader.
func (*FS) VaryingSizes() (kinds []uint8) {
	for k := range files {
		if files[k].live != nil {
			kinds = append(kinds, kind(k))
		}
	}
	return kinds
}

// Lookup resolves a volume's id in the root, or a name in a volume.
func (f *FS) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if header.NodeId == fuse.FUSE_ROOT_ID {
		return f.Root.Lookup(cancel, header, name, out)
	}
	record, status := f.Record(header.NodeId)
	if !status.Ok() {
		return status
	}
	k, known := kindOf(name)
	if !known {
		return f.lookupFact(name, out)
	}
	attributes, err := AttributesOf(record)
	switch {
	case err != nil:
		return fuse.EIO
	case !files[k].in(attributes):
		return fuse.ENOENT
	}
	record.Entry(k, out)
	out.EntryValid = volume.Forever
	f.mounts.note(header.NodeId, record.Mounted)
	out.AttrValid = f.attributes(out.NodeId, &files[k], record, header.Pid, &out.Attr)
	return fuse.OK
}

// GetAttr answers stat(2) where the kernel has no valid attributes.
func (f *FS) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	file := fileOf(in.NodeId)
	switch {
	case file == nil:
		return fuse.Status(unix.ESTALE)
	case file == &files[directory]:
		return f.Root.GetAttr(cancel, in, out)
	case file.scope == operators:
		return f.factAttributes(in.NodeId, out)
	}
	record, status := f.recordFor(file, in.NodeId)
	if file.live != nil {
		record.Mounted = f.mountedAt(in.NodeId)
	}
	if status.Ok() {
		out.AttrValid = f.attributes(in.NodeId, file, record, in.Pid, &out.Attr)
	}
	return status
}

// mountedAt is when the volume of a node was mounted; the zero time where nobody knows.
func (f *FS) mountedAt(node uint64) time.Time {
	at, known := f.mounts.of(node)
	if !known {
		if record, status := f.Record(node); status.Ok() {
			at = record.Mounted
			f.mounts.note(node, at)
		}
	}
	return at
}

// recordFor is the record of a file's volume, empty for a live file, whose content does not
// depend on it.
func (f *FS) recordFor(file *file, node uint64) (record volume.Record, status fuse.Status) {
	if file.live == nil {
		record, status = f.Record(node)
	}
	return record, status
}

// attributes fills in the attributes of a file for the thread that asks, and returns for
// how many seconds they are valid.
//
// The times of every file are that of the mount, those of live files too. tar(1) compares a file's
// ctime before and after it reads, and fails when the two differ; programs that poll look at mtime.
// No time is known at which the node got its name, and a process keeps its PID.
func (f *FS) attributes(node uint64, file *file, record volume.Record, thread uint32, attr *fuse.Attr) (valid uint64) {
	var buffer [maxContent]byte
	// A caller that may not read the file may ask for its size without an error.
	content, _ := f.content(buffer[:0], file, record, thread)
	attr.Ino, attr.Mode, attr.Nlink, attr.Size = node, file.mode, 1, uint64(len(content))
	if mounted := record.Mounted; !mounted.IsZero() {
		attr.SetTimes(&mounted, &mounted, &mounted)
	}
	if file.live != nil {
		return 0
	}
	return volume.Forever
}

// Open says how the kernel may cache the file, and that close(2) need not ask
// (since Linux 5.16; before, the first answer of Flush says so). Only opening for
// reading gets here: package connection refuses the rest.
func (f *FS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	file := fileOf(in.NodeId)
	switch {
	case file == nil:
		return fuse.Status(unix.ESTALE)
	case file.scope == operators:
		return f.openFact(in.NodeId, out)
	case file.live != nil:
		out.OpenFlags = fuse.FOPEN_NOFLUSH | fuse.FOPEN_DIRECT_IO
	default:
		out.OpenFlags = fuse.FOPEN_NOFLUSH | fuse.FOPEN_KEEP_CACHE
	}
	return fuse.OK
}

// Read returns what the calling process reads at the offset.
//
// A read that fills the page cache has no lock owner (fs/fuse/file.c,
// fuse_read_args_fill against fuse_send_read). Of a file that is different for
// each reader it gets EINVAL: its page would be handed to other readers.
// Programs that use sendfile(2), such as busybox's cat, take EINVAL for "not on
// this file" and go on with read(2); a private mmap(2) gets SIGBUS in the place
// of a wrong answer.
func (f *FS) Read(_ <-chan struct{}, in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	file := fileOf(in.NodeId)
	switch {
	case file == nil:
		return nil, fuse.Status(unix.ESTALE)
	case file.mode == link, file == &files[directory]: // the kernel does not ask
		return nil, fuse.EINVAL
	case file.scope == operators:
		return f.readFact(in, buffer)
	case file.live != nil && in.ReadFlags&fuse.READ_LOCKOWNER == 0:
		return nil, fuse.EINVAL
	}
	record, status := f.recordFor(file, in.NodeId)
	if !status.Ok() {
		return nil, status
	}
	var all [maxContent]byte
	content, err := f.content(all[:0], file, record, in.Pid)
	if err != nil {
		return nil, statusOf(err)
	}
	return filledFrom(content, in.Offset, buffer), fuse.OK
}

// filled is the result of a read: so many bytes at the beginning of the buffer that
// the reader gave. Unlike go-fuse's own, it is made without an allocation as long as
// it is below 256, which the files of a volume are.
type filled int

// filledFrom fills the buffer with the content from an offset.
func filledFrom(content []byte, offset uint64, buffer []byte) fuse.ReadResult {
	return filled(copy(buffer, content[min(offset, uint64(len(content))):]))
}

// Bytes are in the buffer already.
func (n filled) Bytes(buffer []byte) ([]byte, fuse.Status) { return buffer[:n], fuse.OK }

// Size is how many they are.
func (n filled) Size() int { return int(n) }

// Done has nothing to release.
func (filled) Done() {}

// Readlink resolves pid.
func (f *FS) Readlink(_ <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	file := fileOf(header.NodeId)
	if file == nil || file.mode != link {
		return nil, fuse.EINVAL
	}
	target, err := f.content(nil, file, volume.Record{}, header.Pid)
	return target, statusOf(err)
}

// ReadDir lists the root or a volume. The position of a file is its kind, and those of the
// operator's facts are beyond the last one.
func (f *FS) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return f.Root.ReadDir(cancel, in, out)
	}
	record, status := f.Record(in.NodeId)
	if !status.Ok() {
		return status
	}
	attributes, err := AttributesOf(record)
	if err != nil {
		return fuse.EIO
	}
	if !volume.Dots(in, out) {
		return fuse.OK
	}
	for k := range files {
		at := volume.FirstOffset + uint64(k)
		if files[k].name == "" || at <= in.Offset || !files[k].in(attributes) {
			continue
		}
		e := fuse.DirEntry{Name: files[k].name, Mode: files[k].mode, Ino: volume.Node(record.ID(), kind(k)), Off: at}
		if !out.AddDirEntry(e) {
			return fuse.OK
		}
	}
	f.listFacts(in.Offset, out)
	return fuse.OK
}

// Flush tells the kernel to stop asking at every close(2): there is nothing
// to flush.
func (*FS) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

func statusOf(err error) fuse.Status {
	var errno unix.Errno
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &errno):
		return fuse.Status(errno)
	}
	return fuse.EIO
}
