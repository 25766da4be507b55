package pair

import "time"

// A process has the lock of its role, so that call-outs need not ask it. But a process need
// not have the lock to serve: its holder may be a process that was killed and cannot end, or
// that an attacker has taken over. So no process waits long for a lock. A process that serves
// without the active lock keeps the standby lock, and tries for the active one at each beat.
// Two that serve for a moment do no harm: they give the same answers, and the kernel takes
// one of each.

// releaseTime is how long to wait for a predecessor's lock. When it dies, the kernel
// closes its descriptors in their order, the lock's before the link's.
const releaseTime = 100 * time.Millisecond

// lockActive takes the active lock if it is free within the limit, and otherwise the standby
// lock.
func (p *process) lockActive(limit time.Duration) {
	switch {
	case p.hasActive:
	case p.takeWithin(activeByte, limit):
		p.hasActive, p.hasStandby = true, false
		p.release(standbyByte)
	default:
		p.lockStandby(0)
	}
}

func (p *process) lockStandby(limit time.Duration) {
	p.hasStandby = p.hasStandby || p.takeWithin(standbyByte, limit)
}

func (p *process) unlock() {
	p.hasActive, p.hasStandby = false, false
	p.release(activeByte)
	p.release(standbyByte)
}

// takeWithin takes the lock of a byte, and reports whether that succeeds within the limit.
func (p *process) takeWithin(b int64, limit time.Duration) bool {
	return within(limit, func() bool { return p.take(b) })
}

// within asks until the answer is true, and reports whether it was within the limit.
func within(limit time.Duration, ask func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		if ask() {
			return true
		} else if !time.Now().Before(deadline) {
			return false
		}
	}
}
