package connection

import (
	"encoding/binary"
	"fmt"
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
	if err := c.device.writeApart(header[:], content); err != nil {
		return fmt.Errorf("put a file into the page cache: %w", err)
	}
	return nil
}
