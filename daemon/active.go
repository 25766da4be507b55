package daemon

import (
	"time"

	"example.com/pod-info-fuse/connection"
)

// active is the life of the process that serves. All of its state belongs to
// the goroutine of run; others only send to it.
type active struct {
	*process
	conn    *connection.Connection
	served  chan error   // what Serve returned
	alive   chan bool    // the serving loop gave a sign of life
	probing bool         // it has been asked for one
	control chan request // from the control socket

	leaving bool // SIGTERM came: hand over to the next standby that is ready

	standby *child // nil: none
	next    *child // the one that an upgrade started, nil: none
	upgrade upgrade
	retry   backoff
}

func newActive(p *process, c *connection.Connection) *active {
	a := &active{process: p, alive: make(chan bool, 1), control: make(chan request)}
	a.serve(c)
	return a
}

// serve begins to answer requests.
func (a *active) serve(c *connection.Connection) {
	served := make(chan error, 1)
	a.conn, a.served = c, served
	a.probing = false // whoever asked a connection that has ended gets no answer
	go func() { served <- c.Serve() }()
}

// run returns when a successor serves, the file system is unmounted, or the
// control socket says that it shall. SIGTERM is no reason to stop serving, but to
// let the standby do it, as soon as there is one.
func (a *active) run() error {
	go a.accept()
	a.startStandby()
	var left memory
	look := time.NewTicker(looks)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			left.look()
		case err := <-a.served: // unmounted, or broken
			a.dismiss()
			return err
		case <-a.alive:
			a.probing = false
			a.standby.send(message{Kind: pong})
		case m, open := <-a.standby.inbox():
			a.fromStandby(m, open)
		case m, open := <-a.next.inbox():
			if done := a.fromNext(m, open); done {
				return nil
			}
		case <-a.standby.late():
			a.lost("it hangs")
		case <-a.next.late():
			a.upgradeFailed("the new version was not ready in time")
		case <-a.retry.due():
			a.startStandby()
		case r := <-a.control:
			if done := a.handle(r); done {
				return nil
			}
		case <-a.terminate:
			a.leaving = true
		}
		if a.leaving && a.handOver(a.standby) {
			return nil
		}
	}
}

// fromStandby handles a message from the standby.
func (a *active) fromStandby(m message, open bool) {
	switch {
	case !open:
		a.lost("it died")
	case m.Kind == ready:
		a.standby.adopt(*m.Process, a.history)
	case m.Kind == broken:
		a.lost(m.Problem)
	case m.Kind == ping:
		a.standby.heard()
		a.probe()
	}
}

// probe asks the serving loop for a sign of life, which goes on to the standby.
// A loop that hangs gives none, and the standby draws its conclusion.
func (a *active) probe() {
	if a.probing {
		return
	}
	a.probing = true
	go func(c *connection.Connection) {
		if c.Probe() {
			a.alive <- true
		}
	}(a.conn)
}

// startStandby starts a standby of our own version.
func (a *active) startStandby() {
	c, err := a.startChild()
	if err != nil {
		a.Log("start a standby: %v", err)
		a.retry.failed()
		return
	}
	a.standby = c
}

// lost gets rid of a standby that died or hangs, and arranges for another.
func (a *active) lost(why string) {
	lived := a.standby.end()
	a.Log("the standby is lost after %v: %s", lived.Round(time.Millisecond), why)
	a.standby = nil
	if lived > calm {
		a.retry.reset()
	}
	a.retry.failed()
}

// stop ends serving at a request boundary, and returns what Serve did.
func (a *active) stop() error {
	a.conn.Stop()
	return <-a.served
}

// dismiss sends the standbys away: nothing is left to serve.
func (a *active) dismiss() {
	for _, c := range []*child{a.standby, a.next} {
		if c != nil {
			c.send(message{Kind: leave})
			c.end()
		}
	}
	a.standby, a.next = nil, nil
}
