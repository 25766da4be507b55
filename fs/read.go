package fs

import (
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Open says how the kernel may cache the file, and that close(2) need not ask
// (since Linux 5.16; before, the first answer of Flush says so). Only reading
// gets here: the mount is read-only.
func (f *FS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if isFact(in.NodeId) {
		return f.openFact(in.NodeId, out)
	}
	if _, k := split(in.NodeId); k.dynamic() {
		out.OpenFlags = fuse.FOPEN_NOFLUSH | fuse.FOPEN_DIRECT_IO
	} else {
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
	if isFact(in.NodeId) {
		return f.readFact(in, buffer)
	}
	_, k := split(in.NodeId)
	if k.dynamic() && in.ReadFlags&fuse.READ_LOCKOWNER == 0 {
		return nil, fuse.EINVAL
	}
	record, k, status := f.record(in.NodeId)
	if !status.Ok() {
		return nil, status
	}
	var all [maxContent]byte
	content, err := f.content(all[:0], record, k, in.Pid)
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
	if _, k := split(header.NodeId); k != pid {
		return nil, fuse.EINVAL
	}
	return []byte(pidTarget), fuse.OK
}

func statusOf(err error) fuse.Status {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return fuse.Status(errno)
	}
	return fuse.EIO
}
