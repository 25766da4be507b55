package connection

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/survive/internal/suspects"
)

// worker serves one request at a time, in its buffers: a request costs no allocation
// here.
type worker struct {
	*Connection
	number               int
	request, reply       []byte
	requestVec, replyVec [1][]byte
	note                 *suspects.Note
	alone                bool // the request that was taken is to be answered alone

	answers atomic.Uint32 // begun, plus ended: odd while the worker gives one
}

func newWorker(c *Connection, buffers Buffers, number int) *worker {
	w := &worker{Connection: c, number: number, note: c.counts.Suspects.Note(number)}
	w.request, w.reply = buffers.of(number)
	w.replyVec[0] = w.reply
	return w
}

// serve answers requests until the connection ends or is stopped.
//
// One worker leads: it waits for requests and takes them. It answers them itself, since
// waking another processor would take longer than an answer, and the readers need the
// processors. Another worker leads only during answers that may take long.
func (w *worker) serve() error {
	for {
		w.lead.take()
		n, slow, err := w.take()
		for n > 0 && !slow {
			w.answer(n)
			n, slow, err = w.take()
		}
		if w.alone {
			w.alone = false
			w.try(n)
			n = w.slow.next(w.number, w.request)
		} else {
			w.lead.leave()
			if n == 0 {
				return err
			}
		}
		for n > 0 {
			w.answer(n)
			n = w.slow.next(w.number, w.request)
		}
	}
}

// take finds the request whose turn it is, and returns its length, 0 when there will
// be no more, and whether to answer it may take long.
func (w *worker) take() (n int, slow bool, err error) {
	w.showUp() // here, too: under a load, no worker gets to wait
	if w.turns.none() {
		n, slow, err := w.wait()
		if n == 0 || slow {
			return n, slow, err
		}
		request := w.request[:n]
		if !w.others(request) || !w.ahead || !w.turns.add(request, w.volumeOf(devfuse.Header(request).NodeId)) {
			return n, false, nil
		}
	}
	// A request too long for a slot is answered as soon as it is read, and so is a slow one
	// while no other is, but at most one between two turns.
	if !w.overtaken {
		if n, slow := w.readAhead(); n > 0 {
			w.overtaken = true
			return n, slow, nil
		}
	}
	w.overtaken = false
	return w.turns.next(w.request), false, nil
}

// wait reads a request when there is one, and returns its length, 0 when there will
// be no more.
func (w *worker) wait() (n int, slow bool, err error) {
	for !w.stopped.Load() {
		n, slow, err := w.next()
		switch err {
		case nil:
			return n, slow, nil
		case unix.EAGAIN:
			if err := w.device.await(w.waitTimeout()); err != nil {
				return 0, false, err
			}
			w.showUp()
		case errHeld:
			w.showUp()
		case unix.ENODEV: // unmounted
			return 0, false, nil
		default:
			return 0, false, os.NewSyscallError("read a FUSE request", err)
		}
	}
	n, slow = w.nextTrial()
	return n, slow, nil
}

// waitTimeout is how long the worker that leads can wait for a request.
func (w *worker) waitTimeout() time.Duration {
	if w.trials.waiting.Load() > 0 {
		return tooLong
	}
	return w.slow.waitTimeout()
}

// readAhead reads all the requests that there are, so that they get their turns. One that is
// to be answered now is then in w.request, and its length is returned.
func (w *worker) readAhead() (n int, slow bool) {
	for !w.turns.full() && !w.stopped.Load() {
		n, slow, err := w.next()
		if err != nil {
			// There is none, or an error that wait will find, too. Or one is held: what has waited
			// is answered before the next is read, however many are held.
			return 0, false
		}
		if slow || !w.turns.add(w.request[:n], w.volumeOf(devfuse.Header(w.request).NodeId)) {
			return n, slow
		}
	}
	return 0, false
}

// next reads the next request that is prompt, or slow and to be answered now. EAGAIN: there is
// none. errHeld: see device.next.
func (w *worker) next() (n int, slow bool, err error) {
	for {
		if n, slow = w.nextTrial(); n > 0 {
			return n, slow, nil
		}
		if n, err = w.device.held.next(w.request), nil; n == 0 {
			n, err = w.device.next(w.request)
		} else if w.trials.take(w.request[:n], true) {
			continue
		}
		request := w.request[:n]
		switch {
		case err != nil && err != unix.EAGAIN:
			return 0, false, err
		case err == nil && !w.isSlow(request):
			return n, false, nil
		case err == nil && w.slow.begin(w.number, request, w.volumeOf(devfuse.Header(request).NodeId), w.ahead):
			return n, true, nil
		}
		if n = w.slow.late(w.number, w.request); n > 0 {
			return n, true, nil
		} else if err != nil {
			return 0, false, err
		}
	}
}

// isSlow tells whether an answer may take longer than a look at a record.
func (w *worker) isSlow(request []byte) bool {
	head := devfuse.Header(request)
	names := head.Opcode == devfuse.OpLookup || head.Opcode == devfuse.OpReadDir
	return !w.neverBlocks(head.NodeId, names) && !changes(request) // which is refused
}

// answer answers the request.
func (w *worker) answer(n int) {
	w.answers.Add(1)
	defer w.answers.Add(1)
	w.requestVec[0] = w.request[:n]
	w.counts.Request(devfuse.Header(w.request).Opcode)
	begun := time.Now()
	w.note.Begin(subjectOf(w.request[:n]), firstID(w.request), begun)
	length := w.protocol.handle(w.requestVec[:], w.replyVec[:])
	w.note.End() // before the kernel has the reply: it gives a request that was answered to nobody
	if length == 0 {
		return
	}
	switch err := w.device.write(w.reply[:length]); err {
	case nil, unix.ENOENT, unix.ENODEV:
		// ENOENT: the request was interrupted, nobody waits for the reply any
		// more. ENODEV: unmounted meanwhile, as the next read will say.
	default:
		w.protocol.report(fmt.Sprintf("write a reply to FUSE: %v", err))
	}
	w.counts.Answer(uint32(-devfuse.Message[fuse.OutHeader](w.reply).Status), time.Since(begun))
}

// goesOn waits until the worker has ended the answer that it is giving.
func (w *worker) goesOn() {
	const look = time.Millisecond
	for begun := w.answers.Load(); begun%2 == 1 && w.answers.Load() == begun; {
		time.Sleep(look)
	}
}
