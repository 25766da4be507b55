package connection

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// notifyStore is FUSE_NOTIFY_STORE (linux/fuse.h).
const notifyStore = 4

// Store puts the content of a file into the kernel's page cache, as if it had been
// read from its beginning to its end. The kernel must know the node. Where somebody
// reads the file, it waits until that is answered, and Stop and Close do not wait for
// it.
func (c *Connection) Store(node uint64, content []byte) error {
	var header [16 + 24]byte // struct fuse_out_header, struct fuse_notify_store_out
	binary.NativeEndian.PutUint32(header[0:], uint32(len(header)+len(content)))
	binary.NativeEndian.PutUint32(header[4:], notifyStore)
	binary.NativeEndian.PutUint64(header[16:], node)
	binary.NativeEndian.PutUint32(header[32:], uint32(len(content)))
	if err := c.workers[0].writeApart(header[:], content); err != nil {
		return fmt.Errorf("put a file into the page cache: %w", err)
	}
	return nil
}

// writeApart writes a packet through a descriptor of its own: to close one that is
// in use waits for who uses it.
func (w *worker) writeApart(parts ...[]byte) (err error) {
	fd := -1
	controlErr := w.raw.Control(func(device uintptr) {
		fd, err = unix.FcntlInt(device, unix.F_DUPFD_CLOEXEC, 3)
	})
	if err := errors.Join(controlErr, err); err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Writev(fd, parts)
	return err
}
