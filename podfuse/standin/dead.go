package standin

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/survive/volume"
)

// dead is the connection of a program that has died. Nobody else reads it: the mounter hands it
// over when it is certain of the death, and to one process of the pair at a time.
//
// What the program had opened is lost: requests that use it get ESTALE. A request by a path is held
// until the next program's mount is in the place of this one.
type dead struct {
	*connections
	volume     volume.ID
	generation uint64
	file       *os.File
	pod        string // its UID

	mu    sync.Mutex      // guards what follows
	again map[uint64]bool // the requests of which the kernel is about to tell again

	repeats int // requests that were read once more; of the goroutine that reads
}

// mostRepeats is how many requests are read once more before a connection is ended. Only a program
// that hides its descriptor has them queued again, and reading them keeps the pair from other
// volumes.
const mostRepeats = 4096

// usesHandle tells whether a request is about something that the program had opened.
func usesHandle(opcode uint32, request []byte) bool {
	switch opcode {
	case devfuse.OpRead, devfuse.OpWrite, devfuse.OpReadDir, devfuse.OpReadDirPlus, devfuse.OpFlush, devfuse.OpFsync,
		devfuse.OpFsyncDir, devfuse.OpLseek, devfuse.OpFallocate, devfuse.OpCopyFileRange, devfuse.OpIoctl, devfuse.OpPoll,
		devfuse.OpGetLk, devfuse.OpSetLk, devfuse.OpSetLkw, devfuse.OpBmap, devfuse.OpSyncFS:
		return true
	case devfuse.OpGetAttr:
		in := devfuse.Message[fuse.GetAttrIn](request)
		return in != nil && in.Flags()&fuse.FUSE_GETATTR_FH != 0
	case devfuse.OpSetAttr:
		in := devfuse.Message[fuse.SetAttrIn](request)
		return in != nil && in.Valid&fuse.FATTR_FH != 0
	}
	return false
}

// serve answers requests until the connection ends, or is closed.
func (d *dead) serve() {
	raw, err := d.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = devfuse.Resend(int(fd)) }) // a process of the pair before may have read some
	for {
		var failure error
		err := raw.Read(func(fd uintptr) (done bool) {
			for {
				err := d.scratch.read(int(fd), d.handle)
				if d.repeats > mostRepeats {
					d.log("volume %v: its dead program has requests queued again without an end; its connection is ended", d.volume)
					err = unix.ECONNABORTED
				}
				switch err {
				case nil, unix.EINTR, unix.ENOENT: // ENOENT: it was interrupted while it was read
				case unix.EAGAIN:
					return false
				default:
					failure = err
					return true
				}
			}
		})
		if err = errors.Join(err, failure); err != nil {
			return
		}
	}
}

// handle answers a request, or has it held.
func (d *dead) handle(request []byte) {
	head := devfuse.Header(request)
	id := head.Unique
	switch op := head.Opcode; {
	case op == devfuse.OpInterrupt:
		if in := devfuse.Message[fuse.InterruptIn](request); in != nil {
			interrupted := in.Unique // the memory is used again
			if !d.signals.Add(d.pod, func() { d.interrupt(id, interrupted) }) {
				d.letGo(caller{d, interrupted})
			}
		}
	case !devfuse.Waits(op):
	case op == devfuse.OpRelease, op == devfuse.OpReleaseDir, op == devfuse.OpDestroy:
		d.fail(id, fuse.OK)
	case usesHandle(op, request):
		d.fail(id, fuse.Status(unix.ESTALE))
	default:
		waits, again := d.outages.lose(d.volume, head.Pid, caller{d, id})
		if waits {
			// The program's restart may depend on the thread that makes it: it must not wait for
			// the restart. Beyond the looks that there can be, it waits, as all others do.
			d.looks.Add(d.pod, func() {
				if d.isOwn(d.volume, head.Pid) {
					d.outages.answerOwn(d.volume, caller{d, id})
				}
			})
		}
		if again {
			d.repeats++
		}
	}
}

// interrupt answers a request whose thread is to die of a signal, as package connection does for
// stand-ins. For any other signal it answers EAGAIN, and the kernel tells again: once, however
// often a program that hides its descriptor answers too, or has all requests queued again.
func (d *dead) interrupt(id, interrupted uint64) {
	c := caller{d, interrupted}
	thread, waiting := d.outages.threadOf(c)
	if waiting == 0 || proc.IsKilled(thread) {
		d.letGo(c)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.again[interrupted] {
		return
	}
	d.again[interrupted] = true
	time.AfterFunc(proc.UntilKilled(waiting), func() {
		d.mu.Lock()
		delete(d.again, interrupted)
		d.mu.Unlock()
		if _, waiting := d.outages.threadOf(c); waiting > 0 {
			d.fail(id, fuse.EAGAIN)
		}
	})
}

// letGo answers a request whose thread was sent a signal.
func (d *dead) letGo(c caller) {
	d.fail(c.id, fuse.EINTR)
	d.outages.interrupted(c)
}

// fail answers a request.
func (d *dead) fail(id uint64, status fuse.Status) {
	_, _ = d.file.Write(devfuse.Error(id, status)) // ENOENT: nobody waits any more
}

// scratch is the memory into which requests of all dead connections are read, one at a time.
type scratch struct {
	mu     sync.Mutex
	memory []byte // nil before the first
}

// scratchSize is address space, which counts for RLIMIT_DATA. The kernel wants room for the largest
// write that a program has agreed on: 256 MiB, with fs.fuse.max_pages_limit at its most.
const scratchSize = 257 << 20

// read reads a request, and has it handled.
func (s *scratch) read(fd int, handle func(request []byte)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory == nil {
		if err := s.take(); err != nil {
			return err
		}
	}
	n, err := unix.Read(fd, s.memory)
	if err == nil {
		handle(s.memory[:n])
	}
	return err
}

// take takes address space. Memory is taken as far as requests reach, by small pages, and none is
// reserved: the kubelet sets vm.overcommit_memory to 1. The beginning is touched before, because a
// copy that fails while this process is killed is an error for the reader.
func (s *scratch) take() (err error) {
	s.memory, err = unix.Mmap(-1, 0, scratchSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	_ = unix.Madvise(s.memory, unix.MADV_NOHUGEPAGE)
	for at := 0; at < 16<<10; at += os.Getpagesize() {
		s.memory[at] = 1
	}
	return nil
}

func (s *scratch) free() {
	if s.memory != nil {
		_ = unix.Munmap(s.memory)
		s.memory = nil
	}
}

// connections has the connections of dead programs that are served.
type connections struct {
	*service
	scratch scratch

	mu      sync.Mutex // guards what follows
	ended   bool
	volumes map[volume.ID][]*dead
	count   int
	running sync.WaitGroup
}

// mostDead is how many connections of dead programs are kept of one volume, and mostDeadOfAll of
// all volumes, far below the limit of descriptors. One too many closes the oldest of its volume, or
// one of the pod that has most (see makeRoom): the users of that connection get ECONNABORTED.
const (
	mostDead      = 8
	mostDeadOfAll = 2048
)

// add serves a connection, which it takes over.
func (c *connections) add(id volume.ID, generation uint64, since time.Time, file *os.File) {
	record, _ := c.fs.layout.Clients().Get(id) // without one, as of a pod that is not known
	d := &dead{connections: c, volume: id, generation: generation, file: file, pod: podfuse.PlainUID(record.PodUID), again: map[uint64]bool{}}
	c.mu.Lock()
	of := c.volumes[id]
	known := slices.ContainsFunc(of, func(other *dead) bool { return other.generation == generation })
	full := c.count >= mostDeadOfAll && !known && !c.ended && !c.makeRoom(d.pod)
	if known || full || c.ended {
		c.mu.Unlock()
		file.Close()
		if full && !known {
			c.outages.died(id, generation, since, nil)
			c.spent(id, generation)
		}
		return
	}
	if len(of) >= mostDead {
		of[0].file.Close()
	}
	c.volumes[id] = append(of, d)
	c.count++
	c.running.Add(1)
	c.mu.Unlock()
	c.outages.died(id, generation, since, d)
	go func() {
		defer c.running.Done()
		d.serve()
		c.remove(d)
	}()
}

// makeRoom closes a connection of the pod that has most, the oldest of that pod's volume with most,
// for one more of a pod. It returns false if the other pod would then have fewer. The caller has
// locked c.
func (c *connections) makeRoom(pod string) bool {
	of := map[string]int{}
	for _, all := range c.volumes {
		of[all[0].pod] += len(all)
	}
	var most []*dead
	for _, all := range c.volumes {
		if most == nil || cmp.Or(of[all[0].pod]-of[most[0].pod], len(all)-len(most)) > 0 {
			most = all
		}
	}
	if most == nil || of[most[0].pod] <= of[pod]+1 {
		return false
	}
	most[0].file.Close()
	c.forgetOne(most[0])
	return true
}

// remove ends a connection that no process uses any more, or that is one too many.
func (c *connections) remove(d *dead) {
	d.file.Close()
	c.outages.ends(d.volume, d)
	c.mu.Lock()
	c.forgetOne(d)
	c.count--
	ended := c.ended
	c.mu.Unlock()
	if !ended {
		c.spent(d.volume, d.generation)
	}
}

// forgetOne takes a connection from those of its volume. The caller has locked c.
func (c *connections) forgetOne(d *dead) {
	c.volumes[d.volume] = slices.DeleteFunc(c.volumes[d.volume], func(other *dead) bool { return other == d })
	if len(c.volumes[d.volume]) == 0 {
		delete(c.volumes, d.volume)
	}
}

// forget closes the connections of a volume that is unmounted.
func (c *connections) forget(id volume.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.volumes[id] {
		d.file.Close()
	}
}

// end closes this process's descriptors, and returns when nobody reads any more.
func (c *connections) end() {
	c.mu.Lock()
	c.ended = true
	for _, of := range c.volumes {
		for _, d := range of {
			d.file.Close()
		}
	}
	c.mu.Unlock()
	c.running.Wait()
	c.scratch.free()
}
