package daemon

import (
	"os"
	"time"
)

// child is a process that the active one has started, or that an upgrade has
// started for it. A nil child is none: it has no messages and is never late.
type child struct {
	*link
	process *os.Process // nil: another process is its parent
	started time.Time
	about   *Process // since it was ready
	timer   *time.Timer
}

// startTime is how long a process may take until it is ready.
const startTime = 10 * time.Second

func newChild(l *link, process *os.Process) *child {
	return &child{link: l, process: process, started: time.Now(), timer: time.NewTimer(startTime)}
}

// startChild starts a process of our own version.
func (a *active) startChild() (*child, error) {
	ours, theirs, err := linkPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	process, err := startStandby(a.Args, a.resources, theirs)
	if err != nil {
		ours.close()
		return nil, err
	}
	return newChild(ours, process), nil
}

func (c *child) inbox() <-chan message {
	if c == nil {
		return nil
	}
	return c.messages
}

// late fires when the child has not been heard of for too long.
func (c *child) late() <-chan time.Time {
	if c == nil {
		return nil
	}
	return c.timer.C
}

// heard notes a sign of life.
func (c *child) heard() { c.timer.Reset(2 * patience * beat) }

// adopt makes the child the standby.
func (c *child) adopt(about Process, history History) {
	c.about = &about
	c.heard()
	c.send(message{Kind: standBy, History: &history})
}

// ready tells whether the child could take over.
func (c *child) ready() bool { return c != nil && c.about != nil }

// send is link.send, for a child that may be none.
func (c *child) send(m message) {
	if c != nil {
		c.link.send(m)
	}
}

// end ends the child, if it has not ended by itself, and returns how long it
// lived.
func (c *child) end() time.Duration {
	lived := time.Since(c.started)
	c.timer.Stop()
	c.close()
	if c.process != nil {
		_ = c.process.Kill()
		go func() { _, _ = c.process.Wait() }() // it was our child: reap it
	}
	return lived
}
