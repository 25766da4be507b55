package mounter

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// settled waits until no child is being started, and returns those that wait.
func (r *ready) settled(t *testing.T) []*child {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		starting, waiting := r.starting, slices.Clone(r.waiting)
		r.mu.Unlock()
		if !starting {
			return waiting
		}
	}
	t.Fatal("a child is still being started")
	return nil
}

func (c *child) ends(t *testing.T) {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(10 * time.Second):
		t.Error("a child that nobody needs does not end")
	}
}

func TestWhoIsReadyIsDismissed(t *testing.T) {
	var r ready
	r.prepare()
	waiting := r.settled(t)
	if len(waiting) != mostWaiting {
		t.Fatalf("%d wait", len(waiting))
	}
	must(t, waiting[0].process.Signal(unix.SIGSTOP)) // it does not see the end of its socket
	r.dismiss()
	for _, c := range waiting {
		c.ends(t)
	}

	// One that is being started is dismissed, too.
	r.prepare()
	r.dismiss()
	if waiting := r.settled(t); len(waiting) > 0 {
		t.Errorf("%d wait, and nobody dismisses them", len(waiting))
	}
}

func TestAsManyAreReadyAsAProgramTakes(t *testing.T) {
	var r ready
	r.prepare()
	for i := range mostReady + 1 {
		r.settled(t)
		c := r.take()
		if (c != nil) != (i < mostReady) {
			t.Errorf("%d were taken, and one more waits: %v", i, c != nil)
		}
		if c != nil {
			c.link.Close()
			c.ends(t)
		}
	}
	r.dismiss()
}

// A child that waits is killed when it has its errand already: another one does it.
func TestAReadyChildIsKilledWithItsErrand(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one"})
	w.status("the program is found", func(s Status) bool { return len(s.Volumes) > 0 && s.Volumes[0].PID != 0 })
	c.killProgram()
	w.died(generation)
	time.Sleep(idleTime + 200*time.Millisecond) // until who received the last descriptor has ended
	signal := func(all []string, signal unix.Signal) {
		for _, text := range all {
			pid, _ := strconv.Atoi(text)
			_ = unix.Kill(pid, signal)
		}
	}
	all := childrenLeft()
	signal(all, unix.SIGSTOP)
	time.AfterFunc(time.Second, func() { signal(all, unix.SIGKILL) }) // by then one has its errand
	c.serve(launchOptions{Text: "next"})
	if len(all) == 0 {
		t.Error("none waited")
	}
}

// A connection that was sent by a clock that has been set back since is looked for.
func TestTheClockWasSetBack(t *testing.T) {
	m := &mounter{turns: make(chan func())}
	c := &connection{gone: make(chan struct{}), hurry: make(chan struct{})}
	c.Sent = time.Now().Add(time.Hour).Round(0)
	go m.waitDead(c)
	select {
	case <-m.turns: // the first look's
	case <-time.After(hang):
		t.Error("nobody looks whether its program lives")
	}
}
