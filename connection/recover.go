package connection

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Recover takes care of the requests that a server read and did not answer
// before it died. It must be called before Serve, when no other process serves.
//
// Linux 6.9 and later queues them again when it is told so. Before, their ids
// are lost, and who waits for them would wait for ever: they are answered with
// EINTR, which a program gets for a read that a signal interrupts. mountPoint is
// a path of the file system. ENODEV: it was unmounted.
func (c *Connection) Recover(mountPoint string) error {
	err := c.resend()
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	return c.interruptOrphans(mountPoint)
}

// notifyResend is FUSE_NOTIFY_RESEND (linux/fuse.h).
const notifyResend = 7

// resend makes the kernel queue again what was read and not answered. EINVAL:
// it does not know how.
func (c *Connection) resend() error {
	if !useResend {
		return unix.EINVAL
	}
	var notification [16]byte // struct fuse_out_header
	binary.NativeEndian.PutUint32(notification[0:], uint32(len(notification)))
	binary.NativeEndian.PutUint32(notification[4:], notifyResend)
	return c.device.write(notification[:])
}

// orphanWindow is how many ids back from the newest one an orphan can be. Each
// of them is a request of its own that somebody waits for, or was answered.
const orphanWindow = 8192

// interruptOrphans answers every request that may have been read and not
// answered, with EINTR. The kernel queues requests in the order of their ids, so
// all of those have a lower id than the next one in the queue. Ids that nobody
// waits for are answered by the kernel with ENOENT.
func (c *Connection) interruptOrphans(mountPoint string) error {
	// So that there is a next one: this asks the file system, and is answered
	// when we serve.
	go func() {
		var stat unix.Statfs_t
		_ = unix.Statfs(mountPoint, &stat)
	}()
	w := c.workers[0]
	n, err := w.readNext(5 * time.Second)
	if err != nil {
		return err
	}
	next, _ := requestID(w.request[:n])
	reply := make([]byte, outHeaderSize)
	for id := next - min(next, orphanWindow); id < next; id++ {
		var header [16]byte
		binary.NativeEndian.PutUint64(header[8:], id)
		if err := c.device.write(reply[:refuse(header[:], reply, fuse.Status(unix.EINTR))]); errors.Is(err, unix.ENODEV) {
			return err
		}
	}
	w.answer(n)
	return nil
}

// readNext reads the next request that somebody waits for, and returns its length.
func (w *worker) readNext(limit time.Duration) (n int, err error) {
	for deadline := time.Now().Add(limit); ; {
		n, err := w.read()
		switch err {
		case nil:
			if _, waiting := requestID(w.request[:n]); waiting {
				return n, nil
			}
			w.answer(n)
		case unix.EAGAIN:
			left := time.Until(deadline)
			if left <= 0 {
				return 0, fmt.Errorf("wait for a FUSE request: %w after %v", unix.ETIMEDOUT, limit)
			}
			if err := w.device.await(left); err != nil {
				return 0, err
			}
		default:
			return 0, os.NewSyscallError("read a FUSE request", err)
		}
	}
}
