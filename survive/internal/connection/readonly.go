package connection

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
)

// changes tells whether a request would change something. The answer is EROFS, whatever the
// file system: only this makes it read-only.
//
// The mount cannot say so. A container in a user namespace gets a copy of it that has its
// flags locked, and a container runtime that is to mount the volume for writing, as is the
// default, could not clear MS_RDONLY (runc 1.2 and later: "cannot clear locked flags").
func changes(request []byte) bool {
	op := devfuse.Header(request).Opcode
	if op == devfuse.OpOpen {
		in := devfuse.Message[fuse.OpenIn](request)
		return in != nil && in.Flags&(unix.O_ACCMODE|unix.O_TRUNC) != unix.O_RDONLY
	}
	return devfuse.Changes(op)
}
