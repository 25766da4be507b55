package install

import (
	"context"
	"sync"
	"time"
)

// Watch looks at the node again and again.
type Watch struct {
	Look     func() error  // does what is due, and says what is still wrong
	Interval time.Duration // between two looks
	Log      func(format string, args ...any)

	mu     sync.Mutex // guards what follows
	looked time.Time
	wrong  error
}

// Run looks until the context ends, the first time at once.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(w.Interval)
	defer ticker.Stop()
	for {
		w.note(w.Look())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (w *Watch) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && (w.wrong == nil || w.wrong.Error() != err.Error()) {
		w.Log("%v", err)
	}
	w.looked, w.wrong = time.Now(), err
}

// Looked returns when the last look ended, and what was wrong then. The time is
// zero before the first.
func (w *Watch) Looked() (at time.Time, wrong error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looked, w.wrong
}
