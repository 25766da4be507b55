package connection

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// worker serves one request at a time. Its buffers and functions are made
// once, so that a request costs no allocation here.
type worker struct {
	device   *os.File
	raw      syscall.RawConn
	protocol protocol
	report   func(string)

	stopped *atomic.Bool  // shared by the connection's workers
	round   chan struct{} // gets an element when the worker was woken and goes on
	ended   chan struct{} // closed when serve returns

	request, reply       []byte
	requestVec, replyVec [1][]byte
	readOnce             func(fd uintptr) (done bool)
	writeOnce            func(fd uintptr)
	n                    int   // of the last read or write
	err                  error // of the last read or write
}

func newWorker(device int, p protocol, stopped *atomic.Bool, report func(string)) (*worker, error) {
	file, err := duplicate(device)
	if err != nil {
		return nil, err
	}
	// Only a descriptor that the runtime polls can be stopped.
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		file.Close()
		return nil, fmt.Errorf("/dev/fuse is not open in non-blocking mode: %w", err)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	w := &worker{
		device: file, raw: raw, protocol: p, report: report,
		stopped: stopped, round: make(chan struct{}, 1), ended: make(chan struct{}),
		request: make([]byte, requestSize()), reply: make([]byte, replySize()),
	}
	w.replyVec[0] = w.reply
	w.readOnce = func(fd uintptr) bool {
		w.n, w.err = unix.Read(int(fd), w.request)
		return w.err != unix.EAGAIN
	}
	w.writeOnce = func(fd uintptr) {
		w.n, w.err = unix.Write(int(fd), w.reply[:w.n])
	}
	return w, nil
}

// wake ends the worker's wait for a request.
func (w *worker) wake() {
	// A deadline in the past does that, and nothing else. It fails for a closed
	// file only, whose worker has ended.
	_ = w.device.SetReadDeadline(time.Unix(1, 0))
}

// goOn is called when the worker was woken, and reports whether it shall wait
// again.
func (w *worker) goOn() bool {
	_ = w.device.SetReadDeadline(time.Time{})
	// Asked after the deadline is gone: a Stop after this wakes us again.
	if w.stopped.Load() {
		return false
	}
	select {
	case w.round <- struct{}{}:
	default: // nobody has taken the one before
	}
	return true
}

// serve answers requests until the connection ends or is stopped.
func (w *worker) serve() error {
	defer close(w.ended)
	for {
		if err := w.raw.Read(w.readOnce); errors.Is(err, os.ErrDeadlineExceeded) {
			if w.goOn() {
				continue
			}
			return nil
		} else if err != nil {
			return w.whyNoWait(err)
		}
		switch w.err {
		case nil:
			w.answer()
		case unix.ENODEV: // unmounted
			return nil
		case unix.EINTR, unix.ENOENT:
			// ENOENT: the request was interrupted while it was being read
			// (fs/fuse/dev.c, fuse_dev_do_read).
		default:
			return os.NewSyscallError("read a FUSE request", w.err)
		}
	}
}

// whyNoWait says why the poller does not wait for requests. When the file system
// is unmounted, it may tell nothing but that (fs/fuse/dev.c, fuse_dev_poll:
// EPOLLERR); reading tells the rest. nil: unmounted.
func (w *worker) whyNoWait(waitErr error) error {
	if err := w.raw.Control(func(fd uintptr) { w.readOnce(fd) }); err == nil && w.err == unix.ENODEV {
		return nil
	}
	return fmt.Errorf("wait for a FUSE request: %w", waitErr)
}

func (w *worker) answer() {
	w.requestVec[0] = w.request[:w.n]
	if opcode(w.request) == opInterrupt {
		// Nothing here takes long enough to be interrupted. To answer that we do
		// not know the request, as go-fuse does, would make the kernel ask again at
		// once, and before anything else (fs/fuse/dev.c, fuse_dev_do_read): for a
		// request that a dead server had read, for ever.
		return
	}
	beforeAnswer(w.requestVec[0])
	w.n = w.protocol.handle(w.requestVec[:], w.replyVec[:])
	if w.n == 0 {
		return
	}
	if err := w.raw.Control(w.writeOnce); err != nil {
		w.err = err
	}
	switch w.err {
	case nil, unix.ENOENT, unix.ENODEV:
		// ENOENT: the request was interrupted, nobody waits for the reply any
		// more. ENODEV: unmounted meanwhile, as the next read will say.
	default:
		w.report(fmt.Sprintf("write a reply to FUSE: %v", w.err))
	}
}
