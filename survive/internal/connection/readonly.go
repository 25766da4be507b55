package connection

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// changing has a bit for each request that would change a file system (linux/fuse.h, enum
// fuse_opcode): SETATTR, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, WRITE, SETXATTR,
// REMOVEXATTR, CREATE, FALLOCATE, RENAME2, COPY_FILE_RANGE, TMPFILE, COPY_FILE_RANGE_64.
const changing uint64 = 1<<4 | 1<<6 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<16 | 1<<21 |
	1<<24 | 1<<35 | 1<<43 | 1<<45 | 1<<47 | 1<<51 | 1<<53

// changes tells whether a request would change something. The answer is EROFS, whatever the
// file system: only this makes it read-only.
//
// The mount cannot say so. A container in a user namespace gets a copy of it that has its
// flags locked, and a container runtime that is to mount the volume for writing, as is the
// default, could not clear MS_RDONLY (runc 1.2 and later: "cannot clear locked flags").
func changes(request []byte) bool {
	op := opcode(request)
	if op == opOpen {
		in := message[fuse.OpenIn](request)
		return in != nil && in.Flags&(unix.O_ACCMODE|unix.O_TRUNC) != unix.O_RDONLY
	}
	return changing>>op&1 == 1
}
