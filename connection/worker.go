package connection

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// worker serves one request at a time. Its buffers are made once, so that a request
// costs no allocation here.
type worker struct {
	*Connection
	request, reply       []byte
	requestVec, replyVec [1][]byte

	answers atomic.Uint32 // begun and ended: odd while one is on
}

func newWorker(c *Connection) *worker {
	w := &worker{Connection: c, request: make([]byte, requestSize()), reply: make([]byte, replySize())}
	w.replyVec[0] = w.reply
	return w
}

// serve answers requests until the connection ends or is stopped.
//
// One worker leads: it waits for requests and takes them. It answers them itself, as to
// wake another processor would take longer than an answer, and what the readers need is
// processors. Only while it gives an answer that may take long, another worker leads.
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
	w.showUp() // here, too: under a load, nobody gets to wait
	if w.turns.none() {
		n, err := w.wait()
		if n == 0 {
			return 0, false, err
		}
		request := w.request[:n]
		if !w.others(request) || !w.ahead || !w.turns.add(request, w.fs.VolumeOf(node(request))) {
			return n, w.slow(request), nil
		}
	}
	// One that is too long to wait is answered when it is read, but those whose turn it
	// is are not overtaken twice.
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
		n, err := w.read()
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

// readAhead reads all the requests that there are, so that they get their turns. One
// that is too long to wait is in w.request then, and its length is returned.
func (w *worker) readAhead() (n int) {
	for !w.turns.full() && !w.stopped.Load() {
		n, err := w.read()
		if err != nil {
			return 0 // there is none, or what wait will find as well
		}
		if !w.turns.add(w.request[:n], w.fs.VolumeOf(node(w.request))) {
			return n
		}
	}
	return 0
}

// read reads the next request that is to be answered. EAGAIN: there is none.
//
// FUSE_INTERRUPT is not: nothing takes long enough to be interrupted. To answer that
// we do not know the request, as go-fuse does, would make the kernel ask again at once,
// and before anything else (fs/fuse/dev.c, fuse_dev_do_read): for a request that a dead
// server had read, for ever.
func (w *worker) read() (n int, err error) {
	for {
		n, err = w.device.read(w.request)
		switch {
		case err == unix.ENOENT, err == unix.EINTR:
			// ENOENT: the request was interrupted while it was read
			// (fs/fuse/dev.c, fuse_dev_do_read).
		case err == nil && opcode(w.request) == opInterrupt:
		default:
			return n, err
		}
	}
}

// slow tells whether to answer may take longer than to look at a record.
func (w *worker) slow(request []byte) bool {
	switch opcode(request) {
	case opGetAttr, opOpen, opRead, opRelease, opForget, opBatchForget:
		return !w.fs.IsPrompt(node(request))
	}
	return true
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

// goesOn returns when an answer that is on has ended.
func (w *worker) goesOn() {
	const look = time.Millisecond
	for begun := w.answers.Load(); begun%2 == 1 && w.answers.Load() == begun; {
		time.Sleep(look)
	}
}
