package connection

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Connection is a FUSE connection that this process serves.
type Connection struct {
	workers []*worker
	stopped atomic.Bool
}

// New prepares to serve a connection on which Handshake was done, by this or
// another process. The device stays the caller's; the workers read duplicates of
// it, each waiting in the runtime's poller by itself. report is told of what
// goes wrong without ending the connection.
func New(device int, agreed Params, fs fuse.RawFileSystem, workers int, report func(problem string)) (*Connection, error) {
	p := newProtocol(fs, report)
	if err := p.resume(agreed); err != nil {
		return nil, fmt.Errorf("resume the FUSE connection: %w", err)
	}
	c := &Connection{}
	for range workers {
		w, err := newWorker(device, p, &c.stopped, report)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.workers = append(c.workers, w)
	}
	return c, nil
}

// Serve answers requests until the file system is unmounted or Stop is called,
// which are no errors. It can be called once.
func (c *Connection) Serve() error {
	defer c.Close()
	failures := make([]error, len(c.workers))
	var all sync.WaitGroup
	for i, w := range c.workers {
		all.Go(func() {
			if failures[i] = w.serve(); failures[i] != nil {
				c.Stop() // half a server is no better than none
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// Stop makes Serve return at a request boundary: every request that was read
// is answered, and those that were not are left to whoever serves next.
func (c *Connection) Stop() {
	c.stopped.Store(true)
	for _, w := range c.workers {
		w.wake()
	}
}

// Probe waits for a sign of life: each worker must come round to the place
// where it waits for a request. It reports false when the connection has ended.
// It does not return while a worker hangs. It must not be called again before it
// has returned.
func (c *Connection) Probe() bool {
	for _, w := range c.workers {
		w.wake()
	}
	for _, w := range c.workers {
		select {
		case <-w.round:
		case <-w.ended:
			return false
		}
	}
	return true
}

// Close releases the descriptors. Serve does that by itself.
func (c *Connection) Close() {
	for _, w := range c.workers {
		w.device.Close()
	}
}

// duplicate returns a descriptor of the same open file description.
func duplicate(device int) (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(device), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("duplicate /dev/fuse", err)
	}
	return os.NewFile(uintptr(fd), "/dev/fuse"), nil
}
