package connection

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Test builds make trouble here: when a buffer waits for a request (trouble_dropping.go),
// and when a request was read and is not answered yet (trouble_lossy.go).
var beforeRead, beforeAnswer = func([]byte) {}, func([]byte) {}

// worker serves one request at a time, in its buffers: a request costs no allocation
// here.
type worker struct {
	*Connection
	request, reply       []byte
	requestVec, replyVec [1][]byte

	answers atomic.Uint32 // begun, plus ended: odd while the worker gives one
}

func newWorker(c *Connection, buffers Buffers, number int) *worker {
	w := &worker{Connection: c}
	w.request, w.reply = buffers.of(number)
	w.replyVec[0] = w.reply
	return w
}

// serve answers requests until the connection ends or is stopped.
//
// One worker leads: it waits for requests and takes them. It answers them itself, since
// waking another processor would take longer than an answer, and the readers need the
// processors. Another worker leads only during an answer that may take long.
func (w *worker) serve() error {
	for {
		w.lead.take()
		n, slow, err := w.take()
		for n > 0 && !slow {
			w.answer(n)
			n, slow, err = w.take()
		}
		w.lead.leave()
		if n == 0 {
			return err
		}
		w.answer(n)
	}
}

// take finds the request whose turn it is, and returns its length, 0 when there will
// be no more, and whether to answer it may take long.
func (w *worker) take() (n int, slow bool, err error) {
	w.showUp() // here, too: under a load, no worker gets to wait
	if w.turns.none() {
		n, err := w.wait()
		if n == 0 {
			return 0, false, err
		}
		request := w.request[:n]
		if !w.others(request) || !w.ahead || !w.turns.add(request, w.volumeOf(node(request))) {
			return n, w.slow(request), nil
		}
	}
	// A request too long for a slot is answered as soon as it is read, but at most one
	// between two turns.
	if !w.overtaken {
		if n := w.readAhead(); n > 0 {
			w.overtaken = true
			return n, w.slow(w.request[:n]), nil
		}
	}
	w.overtaken = false
	n = w.turns.next(w.request)
	return n, w.slow(w.request[:n]), nil
}

// wait reads a request when there is one, and returns its length, 0 when there will
// be no more.
func (w *worker) wait() (n int, err error) {
	for !w.stopped.Load() {
		n, err := w.device.next(w.request)
		switch err {
		case nil:
			return n, nil
		case unix.EAGAIN:
			if err := w.device.await(forever); err != nil {
				return 0, err
			}
			w.showUp()
		case unix.ENODEV: // unmounted
			return 0, nil
		default:
			return 0, os.NewSyscallError("read a FUSE request", err)
		}
	}
	return 0, nil
}

// readAhead reads all the requests that there are, so that they get their turns. A request
// too long for a slot is then in w.request, and its length is returned.
func (w *worker) readAhead() (n int) {
	for !w.turns.full() && !w.stopped.Load() {
		n, err := w.device.next(w.request)
		if err != nil {
			return 0 // there is none, or an error that wait will find, too
		}
		if !w.turns.add(w.request[:n], w.volumeOf(node(w.request))) {
			return n
		}
	}
	return 0
}

// slow tells whether an answer may take longer than a look at a record.
func (w *worker) slow(request []byte) bool {
	switch opcode(request) {
	case opGetAttr, opOpen, opRead, opRelease, opForget, opBatchForget:
		return !w.isPrompt(node(request))
	}
	return !changes(request)
}

// answer answers the request.
func (w *worker) answer(n int) {
	w.answers.Add(1)
	defer w.answers.Add(1)
	w.requestVec[0] = w.request[:n]
	beforeAnswer(w.request[:n])
	length := w.protocol.handle(w.requestVec[:], w.replyVec[:])
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
}

// goesOn waits until the worker has ended the answer that it is giving.
func (w *worker) goesOn() {
	const look = time.Millisecond
	for begun := w.answers.Load(); begun%2 == 1 && w.answers.Load() == begun; {
		time.Sleep(look)
	}
}
