package daemon

import "time"

const (
	// calm is how long a standby must have lived for its death to count as the
	// first again.
	calm = time.Second

	firstDelay = 5 * time.Millisecond
	// longestDelay is short, because nothing survives a crash while there is no
	// standby, and to start one in vain costs 20 ms of a CPU.
	longestDelay = 2 * time.Second
)

// backoff says when to try again what keeps failing: each failure doubles the
// delay.
type backoff struct {
	delay time.Duration
	timer *time.Timer
}

func (b *backoff) failed() {
	b.delay = min(max(2*b.delay, firstDelay), longestDelay)
	b.timer = time.NewTimer(b.delay)
}

func (b *backoff) reset() { b.delay = 0 }

// due fires when it is time to try again; never, if nothing has failed.
func (b *backoff) due() <-chan time.Time {
	if b.timer == nil {
		return nil
	}
	return b.timer.C
}
