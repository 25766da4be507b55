package pair

import "time"

const (
	// beat is how often a standby asks for a sign of life.
	beat = time.Second / 2
	// silentBeats is how many beats without a sign of life make the active process count as
	// hung. Beats are counted and not seconds, so that a machine that was suspended has not
	// lost any.
	silentBeats = 9
	// dying is how many more beats to wait for a killed process to end. None of its threads
	// runs any more then. But one may wait in the kernel for the answer to a request that
	// nobody serves, and keep all that the process has open.
	dying = 1
)

// standBy waits until this process must take over, and returns why; "" if it is not needed
// any more.
func (p *process) standBy() Cause {
	if !p.adopted() {
		return ""
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	cause := Crash
	for silent := 0; ; {
		select {
		case m, open := <-p.starter.inbox():
			switch {
			case !open:
				return cause
			case m.Kind == pong && cause == Crash: // a late one does not spare a process that was killed
				silent = 0
			case m.Kind == takeOver && p.history.Last == nil:
				return Started
			case m.Kind == takeOver:
				return Planned
			case m.Kind == leave:
				return ""
			}
		case <-ticker.C:
			switch {
			case silent == silentBeats:
				// Its death ends the link, and we take over.
				cause = Hang
				p.killActive()
			case silent == silentBeats+dying:
				return cause
			}
			silent++
			p.lockStandby(0)
			p.starter.send(message{Kind: ping})
		case <-p.terminate:
			return ""
		}
	}
}

// adopted waits until the starter wants this process for its standby. If the starter dies
// before it says so, the answer is yes if no other process is there.
func (p *process) adopted() bool {
	for {
		select {
		case m, open := <-p.starter.inbox():
			switch {
			case !open:
				return p.alone()
			case m.Kind == standBy:
				p.history = *m.History
				p.lockStandby(beat) // the standby before us is leaving
				return true
			case m.Kind == leave, m.Kind == broken:
				return false
			}
		case <-p.terminate:
			return false
		}
	}
}

// alone tells whether no other process can take over from a starter that has died. In an
// upgrade, the standby of the old version can, unless it was just sent away: the holder of
// its lock takes over at once, or leaves. It is asked for first, as in [Place.Find].
func (p *process) alone() bool {
	return within(beat, func() bool { return !p.holder(standbyByte).Held && !p.holder(activeByte).Held })
}

// killActive kills the holder of the active lock: a process that has stopped or hangs does
// not end otherwise.
//
// The PID that the kernel names may belong to another process by now ([Holder]). The kernel
// refuses to kill another user's process.
func (p *process) killActive() {
	active := p.holder(activeByte)
	if active.PID == 0 || active.PID == p.self.PID {
		return
	}
	p.Log("the active process %d gives no sign of life: it is killed", active.PID)
	p.kill(active.PID)
}
