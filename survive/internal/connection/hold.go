package connection

import (
	"errors"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/internal/later"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/hold"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/suspects"
)

// held are the requests that a [hold.Holder] has; nil: the file system is no Holder.
//
// The Holder is asked about a request when it is read, before that gets a turn. From then on
// only the kernel has the request, and the Holder its id: it takes no buffer, no worker and no
// slot. Another process that serves has the kernel queue it again, and its own Holder is
// asked.
//
// A reader that gets a signal, be it SIGKILL, goes on waiting once its request was read. The
// kernel tells by FUSE_INTERRUPT, once, to each process that reads the request, and an answer
// lets the reader go (fs/fuse/dev.c, request_wait_answer and fuse_dev_do_read). One that is to
// die is let go. Another one is not, since open(2) and its like fail with EINTR on no local
// file system; EAGAIN in the place of an answer has the kernel tell again.
type held struct {
	holder hold.Holder
	device *device
	counts *counters.Counters
	note   *suspects.Note
	end    func()        // of the Holder
	limit  time.Duration // for how long a request is held; 0: for ever

	volumeOf func(node uint64) uint64
	// looks are made at who was sent a signal. One waits for a lock of that process, which its
	// threads can keep busy: neither the worker that reads requests waits for it, nor other volumes
	// behind thousands.
	looks later.Queue[uint64]

	mu     sync.Mutex        // guards what follows, and keeps the device open while a reply is written
	ids    map[uint64]waiter // by the id of the request
	served [][]byte          // requests that are not held any more, and that a worker is to answer
}

// waiter is who waits for a request that is held.
type waiter struct {
	thread uint32
	volume uint64
	limit  *time.Timer // nil: there is none
}

// errHeld says that a request was read, and is the Holder's: there is nothing to answer now.
var errHeld = errors.New("the request is held")

func newHeld(fs FileSystem, agreed Params, d *device, counts *counters.Counters, volumeOf func(node uint64) uint64) *held {
	if holder, is := fs.(hold.Holder); is {
		return &held{
			holder: holder, device: d, counts: counts, note: counts.Suspects.Note(suspects.MostWorkers - 1),
			limit: agreed.HoldTimeout(), volumeOf: volumeOf,
		}
	}
	return nil
}

// begin lets requests be held. Before, and after stop, none are.
func (h *held) begin() {
	if h != nil && h.ids == nil {
		h.ids = map[uint64]waiter{}
		h.end = h.holder.Begin(h)
	}
}

// stop leaves what is held to the process that serves next.
func (h *held) stop() {
	if h == nil {
		return
	}
	h.end()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = nil
}

// take asks the Holder about a request, and tells whether that has it now.
func (h *held) take(request []byte) bool {
	if h == nil || h.ids == nil {
		return false
	}
	head := devfuse.Header(request)
	if !devfuse.Waits(head.Opcode) {
		return false
	}
	id := head.Unique
	h.mu.Lock()
	h.ids[id] = waiter{thread: head.Pid, volume: h.volumeOf(head.NodeId)} // before it is asked: it may answer at once
	h.mu.Unlock()
	h.note.Begin(subjectOf(request), firstID(request), time.Now())
	defer h.note.End()
	if h.holder.Hold(hold.Request{ID: id, Node: head.NodeId, Opcode: head.Opcode, PID: head.Pid, Message: request}) {
		h.expire(id)
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ids, id)
	return false
}

// expire ends the wait for a request before the kernel aborts the connection of all readers. The
// age of a request that another process had held is not known: unless it is answered soon, its
// reader walks the path again, with a new request.
func (h *held) expire(id uint64) {
	limit, status := h.limit, fuse.Status(unix.ENOTCONN)
	if id&resent != 0 {
		limit, status = min(limit/4, time.Second), fuse.Status(unix.ESTALE)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if who, held := h.ids[id]; held && limit > 0 { // the Holder may have answered already
		who.limit = time.AfterFunc(limit, func() {
			if h.fail(id, status) {
				h.holder.Interrupted(id)
			}
		})
		h.ids[id] = who
	}
}

// Waits implements hold.Answerer.
func (h *held) Waits(id uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, is := h.ids[id]
	return is
}

// interrupt lets the reader go that a FUSE_INTERRUPT is about, if it is to die. One whose request
// is not held has its answer in a moment. But a request that waits among the trials may be held
// afterwards: the kernel is asked to tell of the signal once more.
func (h *held) interrupt(request []byte, waits bool) {
	in := devfuse.Message[fuse.InterruptIn](request)
	if h == nil || in == nil {
		return
	}
	id, interrupt := in.Unique, in.InHeader.Unique // the buffer is used again
	h.mu.Lock()
	who, held := h.ids[id]
	waiting := len(h.ids)
	h.mu.Unlock()
	later := func() { time.AfterFunc(proc.UntilKilled(waiting), func() { h.again(interrupt) }) }
	switch {
	case held:
		h.looks.Add(who.volume, func() {
			if !isKilled(who.thread) {
				later()
			} else if h.fail(id, fuse.EINTR) {
				h.holder.Interrupted(id)
			}
		})
	case waits:
		later()
	}
}

var isKilled = proc.IsKilled // a test has it take long

// again has the kernel tell once more of a signal, if the reader still waits (fs/fuse/dev.c,
// fuse_dev_do_write).
func (h *held) again(interrupt uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ids != nil {
		_ = h.device.write(devfuse.Error(interrupt, fuse.EAGAIN))
	}
}

// Fail implements hold.Answerer.
func (h *held) Fail(id uint64, status fuse.Status) { h.fail(id, status) }

// fail answers a request if it is held, and tells whether it was.
func (h *held) fail(id uint64, status fuse.Status) (was bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was = h.leave(id); was {
		h.counts.Held()
		_ = h.device.write(devfuse.Error(id, status)) // ENODEV: unmounted, and nobody waits any more
	}
	return was
}

// Serve implements hold.Answerer.
func (h *held) Serve(message []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leave(devfuse.Header(message).Unique) {
		h.served = append(h.served, message)
		h.device.wake()
	}
}

// next copies a request that a worker is to answer, and returns its length, 0 if there is none.
func (h *held) next(buffer []byte) (n int) {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.served) > 0 {
		n = copy(buffer, h.served[0])
		h.served = h.served[1:]
	}
	return n
}

// leave forgets a request if it is held, and tells whether it was. The caller has locked mu.
func (h *held) leave(id uint64) (was bool) {
	who, was := h.ids[id]
	if who.limit != nil {
		who.limit.Stop()
	}
	delete(h.ids, id)
	return was
}
