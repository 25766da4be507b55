package mounter

import (
	"sync"
	"time"
)

// ready are children that wait for an errand, one at a time. To start one takes a process's start-up, five times
// for each program that comes back, and its readers wait. So when a program dies, which another process then starts
// again, a first one is started, and another one whenever one is taken: it starts while that works.
type ready struct {
	mu       sync.Mutex // guards what follows
	child    *child     // nil: none waits
	starting bool
	over     bool // none is to wait: nobody has died lately
	left     int  // that may be started since a program has died
	end      *time.Timer
}

const (
	// mostReady is how many errands a program that comes back takes: detach, own, probe, attach, unmount.
	mostReady = 5
	// readyTime is how long one waits since a program has died.
	readyTime = 5 * time.Second
)

// prepare starts one for a program that has died.
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

// start starts one, for those who have locked.
func (r *ready) start() {
	if r.left == 0 || r.starting || r.child != nil {
		return
	}
	r.left--
	r.starting = true
	go func() {
		c, err := newChild()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.starting = false
		switch {
		case err != nil: // who needs one starts it, and has the error
		case r.over:
			c.link.Close()
		default:
			r.child = c
		}
	}()
}

// take returns one; nil: none waits.
func (r *ready) take() (c *child) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, r.child = r.child, nil; c != nil {
		r.start()
	}
	return c
}

// dismiss ends it, also one that is being started. Without it, the end of the mounter does: it closes the socket.
func (r *ready) dismiss() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left, r.over = 0, true
	if r.child != nil {
		r.child.link.Close()
		r.child = nil
	}
}
