package connection

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/survive/internal/counters"
)

// FileSystem answers the requests.
type FileSystem = fuse.RawFileSystem

// What a FileSystem may be besides: see package survive.
type (
	volumeMapper interface {
		VolumeOf(node uint64) (volume uint64)
	}
	nonBlocker interface {
		NeverBlocks(node uint64, names bool) bool
	}
	sizeVarier interface{ VaryingSizes() (numbers []uint8) }
)

// Connection is a FUSE connection that this process serves.
type Connection struct {
	device      *device
	protocol    protocol
	counts      *counters.Counters
	volumeOf    func(node uint64) uint64
	neverBlocks func(node uint64, names bool) bool
	workers     []*worker
	slow        *slow
	trials      *trials
	stopped     atomic.Bool
	asked       atomic.Bool   // for a sign of life
	round       chan struct{} // gets an element when a sign was given
	ended       chan struct{} // closed when Serve returns

	lead  *lead // of the worker that takes requests; guards what follows
	turns turns
	last  uint32 // the thread that sent the last request
	ahead bool   // read requests ahead of those that wait for their turns

	overtaken bool // a request that is too long for turns was answered before those in it
}

// New prepares to serve a connection on which Handshake was done, by this or another process. The
// device stays the caller's. report is told of problems that do not end the connection, and all is
// counted in counts. There is a worker for each of the buffers, which nobody else may use until
// Serve returns.
func New(fd int, agreed Params, fs FileSystem, buffers Buffers, counts *counters.Counters, report func(problem string)) (*Connection, error) {
	c := &Connection{
		counts:   counts,
		volumeOf: func(uint64) uint64 { return 0 }, neverBlocks: func(uint64, bool) bool { return false },
		round: make(chan struct{}, 1), ended: make(chan struct{}),
		slow: newSlow(buffers.workers()), lead: newLead(), turns: newTurns(), ahead: agreed.canResend(),
	}
	var err error
	if c.device, err = newDevice(fd); err != nil {
		return nil, err
	}
	c.protocol = newProtocol(withMarks(fs, agreed, c.device), agreed.Options, report)
	if err := c.protocol.resume(agreed); err != nil {
		c.Close()
		return nil, fmt.Errorf("resume the FUSE connection: %w", err)
	}
	if mapper, is := fs.(volumeMapper); is {
		c.volumeOf = mapper.VolumeOf
	}
	c.device.held = newHeld(fs, agreed, c.device, counts, c.volumeOf)
	if blocker, is := fs.(nonBlocker); is {
		c.neverBlocks = blocker.NeverBlocks
	}
	c.trials = newTrials(c)
	for i := range buffers.workers() {
		c.workers = append(c.workers, newWorker(c, buffers, i))
	}
	return c, nil
}

// Serve answers requests until the file system is unmounted or Stop is called,
// which are no errors. It can be called once.
func (c *Connection) Serve() error {
	defer c.Close()
	defer close(c.ended)
	c.device.trials = c.trials
	c.device.held.begin()
	defer c.device.held.stop()
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

// Stop makes Serve return at a request boundary: it answers every request that was read, and
// leaves the others, with those that are held, to the process that serves next.
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

// showUp gives the sign of life that Probe has asked for.
func (c *Connection) showUp() {
	if c.asked.Load() && c.asked.CompareAndSwap(true, false) {
		c.round <- struct{}{} // never blocks: Probe has taken the one before
	}
}

// others tells whether readers compete: the request is of another thread than the one
// before.
func (c *Connection) others(request []byte) bool {
	thread := devfuse.Header(request).Pid
	if thread == 0 || thread == c.last {
		return false
	}
	c.last = thread
	return true
}

// SetStandby says whether another process would take over if this one died: see package suspects.
// It may be called at any time.
func (c *Connection) SetStandby(is bool) { c.trials.setStandby(is) }

// Holds tells whether the file system holds requests: see package hold. Then a process that serves
// next must Recover, however this one ends.
func (c *Connection) Holds() bool { return c.device.held != nil }

// Close releases the descriptors. Serve does that by itself.
func (c *Connection) Close() { c.device.close() }
