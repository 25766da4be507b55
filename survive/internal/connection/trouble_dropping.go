//go:build dropping

package connection

import "golang.org/x/sys/unix"

func init() { beforeRead = dropPages }

// dropPages takes the buffer's memory away, if it is not locked, so that the kernel has
// to find other memory for each request: in that moment, a kill costs a reader an EIO
// (buffers.go). One in a hundred kills does.
func dropPages(buffer []byte) { _ = unix.Madvise(buffer, unix.MADV_DONTNEED) }
