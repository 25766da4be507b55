package mounter

import (
	"sync"
	"time"
)

// ready are children that wait for an errand, in a row. To start one takes a process's start-up, five times
// for each program that comes back, and its readers wait. So when a program dies, which another process then starts
// again, they are started meanwhile: each when the one before it runs, or the first one would be the last to.
type ready struct {
	mu       sync.Mutex // guards what follows
	waiting  []*child   // oldest first
	starting bool
	over     bool // none is to wait: nobody has died lately
	left     int  // that may be started since a program has died
	end      *time.Timer
}

const (
	// mostReady is how many errands a program that comes back takes: detach, receive, own, attach, unmount.
	mostReady = 5
	// mostWaiting wait at a time: those from a program's question to its mount.
	mostWaiting = 4
	// readyTime is how long they wait since a program has died.
	readyTime = 5 * time.Second
)

// prepare starts them for a program that has died.
func (r *ready) prepare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end == nil {
		r.end = time.AfterFunc(readyTime, r.dismiss)
	} else {
		r.end.Reset(readyTime)
	}
	r.left, r.over = mostReady, false
	r.start()
}

// start starts one, and the next ones after it, for those who have locked.
func (r *ready) start() {
	if r.left == 0 || r.starting || len(r.waiting) == mostWaiting {
		return
	}
	r.left--
	r.starting = true
	go func() {
		c, err := newChild()
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case err != nil: // who needs one starts it, and has the error
			r.starting = false
			return
		case r.over:
			c.giveUp()
		default:
			r.waiting = append(r.waiting, c)
		}
		r.mu.Unlock()
		<-c.runs
		r.mu.Lock()
		r.starting = false
		r.start()
	}()
}

// take returns one; nil: none waits. One that has died, or that had time to begin and did not, is none: it may be
// stopped, and another one begins sooner.
func (r *ready) take() *child {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > 0 {
		c := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.start()
		if c.isUsable() {
			return c
		}
		c.giveUp()
	}
	return nil
}

func (c *child) isUsable() bool {
	select {
	case <-c.runs:
		return c.begun
	default:
		return time.Since(c.born) < childTime/2
	}
}

// dismiss ends them, also one that is being started. Without it, the end of the mounter does: it closes the sockets.
func (r *ready) dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left, r.over = 0, true
	for _, c := range r.waiting {
		c.giveUp() // one that is stopped would not see the end of its socket
	}
	r.waiting = nil
}
