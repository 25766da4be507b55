package pair

import "time"

// active is the life of the process that serves. All of its state belongs to
// the goroutine of run; others only send to it.
type active struct {
	*process
	service  Service
	served   chan error    // what Serve returned
	alive    chan struct{} // the serving loop gave a sign of life
	probing  bool          // it has been asked for one
	requests chan request  // from the control socket

	leaving bool // SIGTERM came: hand over to the next standby that is ready

	standby *child // nil: none
	next    *child // the one that an upgrade started, nil: none
	upgrade upgrade
	retry   backoff
}

// serve begins to answer requests.
func (a *active) serve(s Service) {
	served := make(chan error, 1)
	a.service, a.served = s, served
	a.probing = false // a probe of the service that has ended gets no answer
	go func() { served <- s.Serve() }()
}

// run returns when a successor serves, the file system is unmounted, or the
// control socket says that it shall. After SIGTERM it serves on until a standby can take
// over.
func (a *active) run() error {
	go a.control(a.requests)
	a.startStandby()
	for {
		select {
		case err := <-a.served: // unmounted, or broken
			a.dismiss()
			return err
		case <-a.alive:
			a.probing = false
			a.standby.send(message{Kind: pong})
		case m, open := <-a.standby.inbox():
			if done := a.fromStandby(m, open); done {
				return nil
			}
		case m, open := <-a.next.inbox():
			if done := a.fromNext(m, open); done {
				return nil
			}
		case <-a.standby.late():
			a.lost("it hangs")
		case <-a.next.late():
			a.upgradeFailed("the new version was not ready in time")
		case <-a.retry.due:
			a.startStandby()
		case r := <-a.requests:
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
func (a *active) fromStandby(m message, open bool) (done bool) {
	switch {
	case !open:
		a.lost("it died")
	case m.Kind == ready:
		a.standby.adopt(*m.Process, a.history)
		a.service.SetStandby(true)
	case m.Kind == broken:
		a.lost(m.Problem)
	case m.Kind == serving && a.standby.ready() && !a.take(activeByte):
		// Our service hangs, and the standby did not know whom to kill: somebody unknown has
		// the active lock.
		a.Log("the standby serves in the place of this process, which hangs")
		return true
	case m.Kind == serving:
		// It would have killed this process, which has that lock.
		a.lost("it says that it serves, and was not asked to")
	case m.Kind == ping:
		a.standby.heard()
		a.lockActive(0)
		a.probe()
	}
	return false
}

// probe asks the serving loop for a sign of life, which goes on to the standby.
// A loop that hangs gives none, and the standby takes over.
func (a *active) probe() {
	if a.probing {
		return
	}
	a.probing = true
	go func(s Service) {
		if s.Probe() {
			a.alive <- struct{}{}
		}
	}(a.service)
}

// startStandby starts a standby of our own version.
func (a *active) startStandby() {
	l, end, err := a.spawn()
	if err != nil {
		a.Log("start a standby: %v", err)
		a.retry.failed()
		return
	}
	a.standby = newChild(l, end)
}

// lost gets rid of a standby that died or hangs, and arranges for another.
func (a *active) lost(why string) {
	lived := a.standby.end()
	a.Log("the standby is lost after %v: %s", lived.Round(time.Millisecond), why)
	a.standby = nil
	a.service.SetStandby(false)
	if lived > calm {
		a.retry.delay = 0
	}
	a.retry.failed()
	a.LostStandby(a.retry.delay == longestDelay)
}

// stop ends serving at a request boundary, and returns what Serve did.
func (a *active) stop() error {
	a.service.Stop()
	return <-a.served
}

// dismiss sends the standbys away when nothing is left to serve.
func (a *active) dismiss() {
	a.standby.dismiss()
	a.next.dismiss()
}

// handOverTime is how long a ready successor may take until it serves. No process serves
// meanwhile.
const handOverTime = silentBeats * beat

// handOver lets a child that is ready serve in our place, and reports whether
// it does. When it dies or hangs in that moment, we go on.
func (a *active) handOver(to *child) bool {
	if !to.ready() {
		return false
	}
	if !a.awaitLocked(to) {
		a.Log("the successor is not there: going on")
		a.kill(to.about.PID)
		return false
	}
	// The successor meets any error of Serve itself.
	_ = a.stop()
	a.unlock()
	to.send(message{Kind: takeOver})
	if to.await(serving, handOverTime) {
		return true
	}
	a.Log("the successor does not serve: going on")
	a.kill(to.about.PID)
	a.lockActive(beat)
	s, err := a.Open(deviceFD)
	if err != nil {
		a.Log("%v", err)
		return true // nothing more can be done here
	}
	a.serve(s)
	return false
}

// awaitLocked waits until the successor has the standby's lock: a call-out that asks while
// neither of us has a lock takes the pair for lost.
func (a *active) awaitLocked(to *child) bool {
	there := true
	locked := within(handOverTime, func() bool {
		select {
		case _, there = <-to.inbox():
		default:
		}
		return !there || a.holder(standbyByte).Held
	})
	return there && locked
}
