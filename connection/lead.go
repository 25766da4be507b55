package connection

import "sync"

// lead is what one worker has at a time. It is a lock that is never handed over: whoever
// runs takes it when it is free. A sync.Mutex gives itself to who has waited for it for
// long, which a worker always has, and it stays with that one until its thread gets a
// processor: on a busy node, for milliseconds in which nobody leads.
type lead struct {
	mu    sync.Mutex // held for moments
	free  sync.Cond
	taken bool
}

func newLead() *lead {
	l := &lead{}
	l.free.L = &l.mu
	return l
}

func (l *lead) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken {
		l.free.Wait()
	}
	l.taken = true
}

func (l *lead) leave() {
	l.mu.Lock()
	l.taken = false
	l.mu.Unlock() // before who is woken wants it
	l.free.Signal()
}
