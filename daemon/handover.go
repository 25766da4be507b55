package daemon

import (
	"time"

	"golang.org/x/sys/unix"
)

// handOver lets a child that is ready serve in our place, and reports whether
// it does. When it dies or hangs in that moment, we go on.
func (a *active) handOver(to *child) bool {
	if !to.ready() {
		return false
	}
	// What Serve says now is of no interest: the successor will find out.
	_ = a.stop()
	if err := release(a.resources.Lock, activeByte); err != nil {
		a.Log("%v", err)
	}
	to.send(message{Kind: takeOver, History: &a.history})
	if to.await(serving, startTime) {
		return true
	}
	a.Log("the successor does not serve: going on")
	_ = unix.Kill(to.about.PID, unix.SIGKILL)
	if err := acquire(a.resources.Lock, activeByte); err != nil {
		a.Log("%v", err)
	}
	c, err := a.connect()
	if err != nil {
		a.Log("%v", err)
		return true // nothing more can be done here
	}
	a.serve(c)
	return false
}

// await waits for a message of a kind. It reports false at end-of-file and
// when time is up.
func (c *child) await(kind string, limit time.Duration) bool {
	timeout := time.After(limit)
	for {
		select {
		case m, open := <-c.messages:
			if !open || m.Kind == kind {
				return open
			}
		case <-timeout:
			return false
		}
	}
}
