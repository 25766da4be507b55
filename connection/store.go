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
// read from its beginning to its end. The kernel must know the node.
func (c *Connection) Store(node uint64, content []byte) error {
	var header [16 + 24]byte // struct fuse_out_header, struct fuse_notify_store_out
	binary.NativeEndian.PutUint32(header[0:], uint32(len(header)+len(content)))
	binary.NativeEndian.PutUint32(header[4:], notifyStore)
	binary.NativeEndian.PutUint64(header[16:], node)
	binary.NativeEndian.PutUint32(header[32:], uint32(len(content)))
	var err error
	controlErr := c.workers[0].raw.Control(func(fd uintptr) {
		_, err = unix.Writev(int(fd), [][]byte{header[:], content})
	})
	if err := errors.Join(controlErr, err); err != nil {
		return fmt.Errorf("put a file into the page cache: %w", err)
	}
	return nil
}
