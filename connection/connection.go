package connection

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// FileSystem answers the requests.
type FileSystem interface {
	fuse.RawFileSystem
	// VolumeOf returns what a node belongs to. Volumes are served in turn.
	VolumeOf(node uint64) (volume uint64)
	// IsPrompt tells whether a node is opened and read without any wait, but for the
	// files of the run directory, which are in memory.
	IsPrompt(node uint64) bool
}

// Connection is a FUSE connection that this process serves.
type Connection struct {
	device   *device
	fs       FileSystem
	protocol protocol
	workers  []*worker
	stopped  atomic.Bool
	asked    atomic.Bool   // for a sign of life
	round    chan struct{} // gets an element when one was given
	ended    chan struct{} // closed when Serve returns

	lead  *lead // of the worker that takes requests; guards what follows
	turns turns
	last  uint32 // the thread that sent the last request
	ahead bool   // requests may be read before those are answered that were read earlier

	overtaken bool // those whose turn it was, by one that is too long to wait
}

// New prepares to serve a connection on which Handshake was done, by this or
// another process. The device stays the caller's. report is told of what
// goes wrong without ending the connection.
func New(fd int, agreed Params, fs FileSystem, workers int, report func(problem string)) (*Connection, error) {
	c := &Connection{
		fs: fs, protocol: newProtocol(fs, report),
		round: make(chan struct{}, 1), ended: make(chan struct{}),
		lead: newLead(), turns: newTurns(), ahead: agreed.canResend(),
	}
	if err := c.protocol.resume(agreed); err != nil {
		return nil, fmt.Errorf("resume the FUSE connection: %w", err)
	}
	var err error
	if c.device, err = newDevice(fd); err != nil {
		return nil, err
	}
	for range workers {
		c.workers = append(c.workers, newWorker(c))
	}
	return c, nil
}

// Serve answers requests until the file system is unmounted or Stop is called,
// which are no errors. It can be called once.
func (c *Connection) Serve() error {
	defer c.Close()
	defer close(c.ended)
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
	c.device.wake()
}

// Probe waits for a sign of life: one worker must come round to the place where it
// takes a request, and each must end the answer that it is giving. It reports
// false when the connection has ended. It does not return while a worker hangs. It
// must not be called again before it has returned.
func (c *Connection) Probe() bool {
	c.asked.Store(true)
	c.device.wake()
	select {
	case <-c.round:
	case <-c.ended:
		return false
	}
	for _, w := range c.workers {
		w.goesOn()
	}
	return true
}

// showUp is the sign of life, if one was asked for.
func (c *Connection) showUp() {
	if c.asked.Load() && c.asked.CompareAndSwap(true, false) {
		c.round <- struct{}{} // the one before was taken: Probe waits for it
	}
}

// others tells whether readers compete: the request is of another thread than the one
// before.
func (c *Connection) others(request []byte) bool {
	thread := sender(request)
	if thread == 0 || thread == c.last {
		return false
	}
	c.last = thread
	return true
}

// Close releases the descriptors. Serve does that by itself.
func (c *Connection) Close() { c.device.close() }
