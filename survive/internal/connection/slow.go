package connection

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slow are the requests whose answers may take long. One of them is answered at a time, by a
// worker that does not lead, and the others wait for it in turns of their own. So there is
// always a worker for what is prompt, and the order of what is prompt has nothing to do with
// that of what is slow.
//
// An answer that takes longer than tooLong is no longer waited for: others must go on, though
// what is prompt may then wait for them.
type slow struct {
	mu      sync.Mutex // held for moments; guards what follows
	turns   turns
	began   []time.Time // of each worker's answer, if it gives one
	waiting atomic.Int32
}

// tooLong is well before the standby takes a process for one that hangs, since its successor
// is asked for the same again.
var tooLong = time.Second // a test sets it

func newSlow(workers int) *slow {
	return &slow{turns: newTurns(), began: make([]time.Time, workers)}
}

// begin tells whether a worker is to answer a request now. Otherwise it waits, if it may and
// if there is room: for an answer, or for those that wait already.
func (s *slow) begin(worker int, request []byte, volume uint64, mayWait bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mayWait && (s.answered() || !s.turns.none()) && !s.turns.full() && s.turns.add(request, volume) {
		s.waiting.Add(1)
		return false
	}
	s.began[worker] = time.Now()
	return true
}

// start says that a worker gives an answer that is not to wait.
func (s *slow) start(worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began[worker] = time.Now()
}

// next ends a worker's answer, and copies the request that it is to answer then. It returns
// its length, 0 if the worker is to do something else.
func (s *slow) next(worker int, buffer []byte) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began[worker] = time.Time{}
	if slices.ContainsFunc(s.began, func(began time.Time) bool { return !began.IsZero() }) {
		return 0 // another worker goes on, or what is prompt would wait for two
	}
	return s.take(worker, buffer)
}

// late is for the worker that leads: it copies the request that it is to answer since the
// answers that are on take too long. It returns its length, 0 if there is none.
func (s *slow) late(worker int, buffer []byte) (n int) {
	if s.waiting.Load() == 0 { // as it is nearly always, and only this worker adds some
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered() {
		return 0
	}
	return s.take(worker, buffer)
}

// waitTimeout is how long the worker that leads can wait for a request.
func (s *slow) waitTimeout() time.Duration {
	if s.waiting.Load() == 0 {
		return forever
	}
	return tooLong
}

// answered tells whether an answer is on that does not take too long.
func (s *slow) answered() bool {
	return slices.ContainsFunc(s.began, func(began time.Time) bool {
		return !began.IsZero() && time.Since(began) < tooLong
	})
}

func (s *slow) take(worker int, buffer []byte) (n int) {
	if s.turns.none() {
		return 0
	}
	s.waiting.Add(-1)
	s.began[worker] = time.Now()
	return s.turns.next(buffer)
}
