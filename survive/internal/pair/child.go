package pair

import "time"

// child is a process that the active one has started, or that an upgrade has
// started for it. A nil child is none: it has no messages and is never late.
type child struct {
	link
	kill    func() // nil: another process is its parent
	started time.Time
	about   *Process // since it was ready
	timer   *time.Timer
}

// startTime is how long a process may take until it is ready.
const startTime = 10 * time.Second

func newChild(l link, kill func()) *child {
	return &child{link: l, kill: kill, started: time.Now(), timer: time.NewTimer(startTime)}
}

func (c *child) inbox() <-chan message {
	if c == nil {
		return nil
	}
	return c.link.inbox()
}

// late fires when the child has been silent for too long.
func (c *child) late() <-chan time.Time {
	if c == nil {
		return nil
	}
	return c.timer.C
}

// heard notes a sign of life.
func (c *child) heard() { c.timer.Reset(2 * silentBeats * beat) }

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

// await waits for a message of a kind. It reports false at end-of-file and
// when time is up.
func (c *child) await(kind string, limit time.Duration) bool {
	timeout := time.After(limit)
	for {
		select {
		case m, open := <-c.inbox():
			if !open || m.Kind == kind {
				return open
			}
		case <-timeout:
			return false
		}
	}
}

// dismiss sends away a child that is not needed any more; it may be none.
func (c *child) dismiss() {
	if c != nil {
		c.send(message{Kind: leave})
		c.end()
	}
}

// end ends the child, if it has not ended by itself, and returns how long it
// lived.
func (c *child) end() time.Duration {
	c.close()
	if c.kill != nil {
		c.kill()
	}
	return time.Since(c.started)
}

const (
	// calm is how long a standby must have lived for its death to count as the
	// first again.
	calm = time.Second

	firstDelay = 5 * time.Millisecond
	// longestDelay is short: without a standby, volumes do not survive a crash, and a failed
	// start costs only 20 ms of a CPU.
	longestDelay = 2 * time.Second
)

// backoff says when to try again after failures: each one doubles the delay.
type backoff struct {
	delay time.Duration
	due   <-chan time.Time // nil: nothing has failed
}

func (b *backoff) failed() {
	b.delay = min(max(2*b.delay, firstDelay), longestDelay)
	b.due = time.After(b.delay)
}
