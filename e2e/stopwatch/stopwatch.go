// Package stopwatch measures what is promised of the driver in seconds, on machines that are
// busy or stand still at times.
package stopwatch

import "time"

const (
	// step is how often a watch looks whether the machine keeps up.
	step = 20 * time.Millisecond
	// usual is by how much a sleep may be longer than it was asked for on any machine.
	usual = 5 * time.Millisecond
)

// A Watch runs while the machine does: the time by which its own sleeps are too long is the
// machine's, and does not count.
type Watch struct {
	began time.Time
	stop  chan struct{}
	late  chan time.Duration
}

// Start starts a watch.
func Start() *Watch {
	w := &Watch{time.Now(), make(chan struct{}), make(chan time.Duration, 1)}
	go w.run()
	return w
}

func (w *Watch) run() {
	var late time.Duration
	for began := w.began; ; began = time.Now() {
		select {
		case <-w.stop:
			w.late <- late
			return
		case <-time.After(step):
		}
		if more := time.Since(began) - step; more > usual {
			late += more
		}
	}
}

// Stop returns the time since Start that counts, and how much does not. It is called once.
func (w *Watch) Stop() (took, late time.Duration) {
	took = time.Since(w.began)
	close(w.stop)
	late = <-w.late
	return max(0, took-late), late
}
