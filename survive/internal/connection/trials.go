package connection

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/suspects"
)

// trials are the requests that this process may die of, as one before has. They wait until there is
// a standby, and then each is answered alone: if the process dies, it is known of what.
//
// As long as there is no standby, all requests of such a volume wait. A process that died of one
// file may die of the file beside it.
type trials struct {
	table    *suspects.Table // changed with mu
	device   *device
	counts   *counters.Counters
	volumeOf func(node uint64) uint64
	again    bool // a dead process's requests come again

	watches atomic.Bool  // there are suspects
	waiting atomic.Int32 // requests

	mu      sync.Mutex // held for moments; guards what follows
	volumes []uint64   // of the suspects when this process began
	waits   []trial    // in their order
	tried   bool       // one is being answered
	standby bool       // there is one
	since   time.Time  // that there is none
}

// trial is a request that waits.
type trial struct {
	request []byte
	hung    bool // the process before has hung in it
	asked   bool // no Holder is to be asked about it
}

// mostTrials is how many requests wait. Further suspects are answered with an error.
const mostTrials = maxWaiting

// standbyTimeout is how long suspects wait for a standby. Then they are answered with an error. A
// call-out asks for longer than that: if it got no answer in its time, it would abort the
// connection.
var standbyTimeout = 5 * time.Second // a test sets it

func newTrials(c *Connection) *trials {
	t := &trials{
		table: &c.counts.Suspects, device: c.device, counts: c.counts, volumeOf: c.volumeOf, again: c.ahead, since: time.Now(),
	}
	t.table.Subjects(func(s suspects.Subject) {
		if s.Node != fuse.FUSE_ROOT_ID { // all volumes are looked up there, and call-outs ask there
			t.volumes = append(t.volumes, c.volumeOf(s.Node))
		}
	})
	t.watches.Store(t.table.Anybody())
	return t
}

// subjectOf is what is suspected if a process dies while it answers a request.
func subjectOf(request []byte) suspects.Subject {
	head := devfuse.Header(request)
	s := suspects.Subject{Node: head.NodeId, Opcode: uint64(head.Opcode)}
	if s.Opcode == devfuse.OpLookup && s.Node == fuse.FUSE_ROOT_ID {
		name, _, _ := bytes.Cut(request[unsafe.Sizeof(head):], []byte{0})
		s.Name = suspects.Hash(name)
	}
	return s
}

// resent is the bit that the kernel sets in the id of a request that it queues again
// (linux/fuse.h, FUSE_UNIQUE_RESEND).
const resent = 1 << 63

// firstID is the id that a request had when it was read first, 0 for one that is not answered.
func firstID(request []byte) uint64 {
	head := devfuse.Header(request)
	if !devfuse.Waits(head.Opcode) {
		return 0
	}
	return head.Unique &^ resent
}

// take has a request wait, or refuses it, and tells whether it did either. asked says that a Holder
// was asked about it, which has it answered as usual.
func (t *trials) take(request []byte, asked bool) bool {
	if t == nil || !t.watches.Load() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	verdict, hung := t.table.Look(subjectOf(request), time.Now())
	full, late := len(t.waits) >= mostTrials, !t.standby && time.Since(t.since) >= standbyTimeout
	switch {
	case verdict == suspects.Refused, verdict == suspects.Suspected && (late || full):
		t.refuse(request, fuse.EIO)
	case verdict == suspects.Suspected, !t.standby && !late && !full && t.isOfOne(request):
		t.waits = append(t.waits, trial{bytes.Clone(request), hung, asked})
		t.waiting.Add(1)
	default:
		return false
	}
	return true
}

// isOfOne tells whether a request is of the volume of a suspect. The caller holds mu.
func (t *trials) isOfOne(request []byte) bool {
	volume := t.volumeOf(devfuse.Header(request).NodeId)
	for _, of := range t.volumes {
		if of == volume {
			return true
		}
	}
	return false
}

// due copies a request that can be answered now, and returns its length, 0 if there is none. alone
// says that nothing is to be answered beside it; for asked, see trial. A process that stops answers
// all that wait: its successor is ready.
func (t *trials) due(buffer []byte, stops bool) (n int, alone, asked bool) {
	if t.waiting.Load() == 0 {
		return 0, false, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waits) > 0 && !t.tried {
		next := t.waits[0]
		if !t.standby && !stops && time.Since(t.since) < standbyTimeout {
			return 0, false, false
		}
		t.waits = t.waits[1:]
		t.waiting.Add(-1)
		verdict, _ := t.table.Look(subjectOf(next.request), time.Now())
		switch {
		case verdict == suspects.Refused, verdict == suspects.Suspected && !t.standby && !stops:
			t.refuse(next.request, fuse.EIO)
			continue
		case verdict == suspects.Suspected:
			t.tried = true
		}
		return copy(buffer, next.request), t.tried, next.asked
	}
	return 0, false, false
}

// ended says that the one that was to be answered alone was, or that a Holder has it: then it is
// still suspected, as it may yet be answered as usual.
func (t *trials) ended(s suspects.Subject, id uint64, answered bool) {
	t.mu.Lock()
	if answered {
		t.table.Acquit(s, id, t.again)
	}
	t.tried = false
	t.watches.Store(t.table.Anybody() || len(t.waits) > 0)
	more := len(t.waits) > 0
	t.mu.Unlock()
	if more {
		t.device.wake()
	}
}

// interrupt lets a reader go that was sent a signal, and whose request the process before hung in:
// it has waited long. The kernel tells of a signal when a request is read again. waits says that
// the request is another one, and still waits here.
func (t *trials) interrupt(request []byte) (waits bool) {
	in := devfuse.Message[fuse.InterruptIn](request)
	if t == nil || in == nil || t.waiting.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, one := range t.waits {
		if devfuse.Header(one.request).Unique != in.Unique {
			continue
		}
		if !one.hung {
			return true
		}
		t.waits = append(t.waits[:i:i], t.waits[i+1:]...)
		t.waiting.Add(-1)
		t.table.Gone(subjectOf(one.request), firstID(one.request))
		t.reply(one.request, fuse.EINTR)
		return false
	}
	return false
}

// setStandby says whether another process would take over now.
func (t *trials) setStandby(is bool) {
	t.mu.Lock()
	if t.standby && !is {
		t.since = time.Now()
	}
	t.standby = is
	t.mu.Unlock()
	if t.waiting.Load() > 0 {
		t.device.wake()
	}
}

// refuse answers a request with an error, and it does not come again. The caller holds mu.
func (t *trials) refuse(request []byte, status fuse.Status) {
	t.table.Gone(subjectOf(request), firstID(request))
	t.counts.Refused.Add(1)
	t.counts.Request(devfuse.Header(request).Opcode)
	t.counts.Answer(uint32(status), 0)
	t.reply(request, status)
}

// reply answers a request with an error, if anybody waits for an answer.
func (t *trials) reply(request []byte, status fuse.Status) {
	if head := devfuse.Header(request); devfuse.Waits(head.Opcode) {
		_ = t.device.write(devfuse.Error(head.Unique, status)) // ENODEV: unmounted, and nobody waits any more
	}
}

// nextTrial finds a request that has waited and is to be answered now, and returns its length, 0 if
// there is none, and whether to answer it may take long.
func (w *worker) nextTrial() (n int, slow bool) {
	for {
		n, alone, asked := w.trials.due(w.request, w.stopped.Load())
		request := w.request[:n]
		switch {
		case n == 0:
			return 0, false
		case !asked && w.device.held.take(request):
			if alone {
				w.trials.ended(subjectOf(request), firstID(request), false)
			}
		case alone:
			w.alone = true
			return n, true
		case !w.isSlow(request):
			return n, false
		case w.slow.begin(w.number, request, w.volumeOf(devfuse.Header(request).NodeId), w.ahead):
			return n, true
		}
	}
}

// try answers a request alone, and lets others go on when that takes too long. This worker has the
// lead, and has left it when try returns.
func (w *worker) try(n int) {
	subject, id := subjectOf(w.request[:n]), firstID(w.request[:n])
	w.slow.start(w.number)
	for begun := time.Now(); w.othersAnswer() && time.Since(begun) < tooLong; {
		time.Sleep(time.Millisecond)
	}
	leave := sync.OnceFunc(w.lead.leave)
	late := time.AfterFunc(tooLong, leave)
	w.answer(n)
	late.Stop()
	w.trials.ended(subject, id, true)
	leave()
}

// othersAnswer tells whether another worker is giving an answer.
func (w *worker) othersAnswer() bool {
	for _, other := range w.workers {
		if other != w && other.answers.Load()%2 == 1 {
			return true
		}
	}
	return false
}
