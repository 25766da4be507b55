package connection

import (
	"encoding/binary"
	"errors"
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
	w := c.workers[0]
	err := w.resend()
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	return w.interruptOrphans(mountPoint)
}

// notifyResend is FUSE_NOTIFY_RESEND (linux/fuse.h).
const notifyResend = 7

// resend makes the kernel queue again what was read and not answered. EINVAL:
// it does not know how.
func (w *worker) resend() error {
	if !useResend {
		return unix.EINVAL
	}
	var notification [16]byte // struct fuse_out_header
	binary.NativeEndian.PutUint32(notification[0:], uint32(len(notification)))
	binary.NativeEndian.PutUint32(notification[4:], notifyResend)
	return w.write(notification[:])
}

// orphanWindow is how many ids back from the newest one an orphan can be. Each
// of them is a request of its own that somebody waits for, or was answered.
const orphanWindow = 8192

// interruptOrphans answers every request that may have been read and not
// answered, with EINTR. The kernel queues requests in the order of their ids, so
// all of those have a lower id than the next one in the queue. Ids that nobody
// waits for are answered by the kernel with ENOENT.
func (w *worker) interruptOrphans(mountPoint string) error {
	// So that there is a next one: this asks the file system, and is answered
	// when we serve.
	go func() {
		var stat unix.Statfs_t
		_ = unix.Statfs(mountPoint, &stat)
	}()
	next, err := w.readNext(5 * time.Second)
	if err != nil {
		return err
	}
	reply := make([]byte, outHeaderSize)
	for id := next - min(next, orphanWindow); id < next; id++ {
		var header [16]byte
		binary.NativeEndian.PutUint64(header[8:], id)
		if err := w.write(reply[:refuse(header[:], reply, fuse.Status(unix.EINTR))]); errors.Is(err, unix.ENODEV) {
			return err
		}
	}
	w.answer()
	return nil
}

// readNext reads the next request that somebody waits for, and returns its id.
func (w *worker) readNext(limit time.Duration) (id uint64, err error) {
	if err := w.device.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	defer w.device.SetReadDeadline(time.Time{})
	for {
		if err := w.raw.Read(w.readOnce); err != nil {
			if why := w.whyNoWait(err); why != nil {
				return 0, why
			}
			return 0, unix.ENODEV
		}
		switch {
		case errors.Is(w.err, unix.EINTR), errors.Is(w.err, unix.ENOENT):
			continue
		case w.err != nil:
			return 0, os.NewSyscallError("read a FUSE request", w.err)
		}
		if id, waiting := requestID(w.request[:w.n]); waiting {
			return id, nil
		}
		w.answer()
	}
}

// write writes a packet to the device.
func (w *worker) write(packet []byte) (err error) {
	controlErr := w.raw.Control(func(fd uintptr) {
		_, err = unix.Write(int(fd), packet)
	})
	return errors.Join(controlErr, err)
}
