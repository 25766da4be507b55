package connection

import (
	"errors"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
)

// Recover is for the requests that a server read and did not answer before it died, or that its
// [Holder] had. It must be called before Serve, when no other process serves.
//
// Linux 6.9 and later queues them again when it is told so. Before, their ids are lost, and
// their readers would wait for ever: Recover answers them with EINTR, as for a read that a
// signal interrupts; or with ESTALE for a Holder, so that the kernel walks the path again, once.
// mountPoint is a path of the file system. ENODEV: it was unmounted.
func (c *Connection) Recover(mountPoint string) error {
	err := devfuse.Resend(c.device.fd)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	return c.failOrphans(mountPoint)
}

// orphanWindow is how many ids back from the newest one an orphan can be. Each
// of them is a request of its own that somebody waits for, or was answered.
const orphanWindow = 8192

// failOrphans answers every request that may have been read and not answered, with an error. The
// kernel queues requests in the order of their ids, so
// all of those have a lower id than the next one in the queue. Ids that nobody
// waits for are answered by the kernel with ENOENT.
func (c *Connection) failOrphans(mountPoint string) error {
	// This makes a next request, which is answered once we serve.
	go func() {
		var stat unix.Statfs_t
		_ = unix.Statfs(mountPoint, &stat)
	}()
	w := c.workers[0]
	n, next, err := w.nextWaiting()
	if err != nil {
		return err
	}
	status := fuse.EINTR
	if c.Holds() {
		status = fuse.Status(unix.ESTALE)
	}
	for id := next - min(next, orphanWindow); id < next; id++ {
		if err := c.device.write(devfuse.Error(id, status)); errors.Is(err, unix.ENODEV) {
			return err
		}
	}
	c.device.held.begin()
	if !c.trials.take(w.request[:n], false) && !c.device.held.take(w.request[:n]) {
		w.answer(n)
	}
	return nil
}

// nextWaiting reads the next request that somebody waits for, and returns its length and
// its id.
func (w *worker) nextWaiting() (n int, id uint64, err error) {
	for {
		n, err := w.device.nextWithin(5*time.Second, w.request)
		if err != nil {
			return 0, 0, err
		}
		if head := devfuse.Header(w.request[:n]); devfuse.Waits(head.Opcode) {
			return n, head.Unique, nil
		}
		w.answer(n)
	}
}
