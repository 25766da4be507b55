package connection

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Connection is a FUSE connection that this process serves.
type Connection struct {
	workers []*worker
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
		w, err := newWorker(device, p, report)
		if err != nil {
			c.close()
			return nil, err
		}
		c.workers = append(c.workers, w)
	}
	return c, nil
}

// Serve answers requests until the file system is unmounted or Stop is called,
// which are no errors. It can be called once.
func (c *Connection) Serve() error {
	defer c.close()
	failures := make([]error, len(c.workers))
	var all sync.WaitGroup
	for i, w := range c.workers {
		all.Go(func() { failures[i] = w.serve() })
	}
	all.Wait()
	return errors.Join(failures...)
}

// Stop makes Serve return at a request boundary: every request that was read
// is answered, and those that were not are left to whoever serves next.
func (c *Connection) Stop() {
	for _, w := range c.workers {
		// A deadline in the past ends the wait for the next request, and nothing
		// else. It fails for a closed file only, whose worker has ended.
		_ = w.device.SetReadDeadline(time.Unix(1, 0))
	}
}

func (c *Connection) close() {
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
