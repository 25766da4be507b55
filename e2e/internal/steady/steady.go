// Package steady looks at processes that nobody disturbs, beside a load that does not change: they
// stay, they do not grow, and who uses them waits no longer at the end than in the beginning.
//
// A [Watch] samples the processes, and judges their growth. [Times] are how long something took, by
// those who do it. Both write what they see as [Line], for a plot.
package steady

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// A Process is one that is looked at.
type Process struct {
	Name string
	PID  int
}

// A Watch looks at processes, and takes down the times of others.
type Watch struct {
	Processes []Process
	Times     []*Times
	// Undisturbed tells why they are not the processes that they were.
	Undisturbed func() error
	// Still is held while it looks, and by whoever takes away for a moment what the processes have:
	// what they have least of the time is judged. nil: nobody does.
	Still sync.Locker
	Lines io.Writer // nil: nobody wants them

	taken []series // of each process
}

// Every is how often to look in such a time: often enough that each quarter has many samples, and
// not more often than a plot can show.
func Every(duration time.Duration) time.Duration { return max(2*time.Second, duration/200) }

// Until looks until a time has come.
func (w *Watch) Until(ctx context.Context, end time.Time, every time.Duration) error {
	began := time.Now()
	for _, t := range w.Times {
		t.forget() // what was before
	}
	w.taken = make([]series, len(w.Processes))
	for next := began; next.Before(end); next = next.Add(every) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		case <-time.After(time.Until(next)):
		}
		if err := w.look(); err != nil {
			return err
		}
		if now := time.Now(); next.Before(now.Add(-every)) {
			next = now.Add(-every) // it had to wait: what it has missed, it has missed
		}
	}
	if n := len(w.taken[0]); n < 4 {
		return fmt.Errorf("there was time for %d samples, and each quarter needs one: %v is too short on this machine", n, end.Sub(began))
	}
	return nil
}

func (w *Watch) look() error {
	if w.Still != nil {
		w.Still.Lock()
		defer w.Still.Unlock()
	}
	now := time.Now()
	var lines []Line
	for i, p := range w.Processes {
		one, err := sampleOf(p.PID)
		if err != nil {
			return errors.Join(err, w.Undisturbed())
		}
		w.taken[i] = append(w.taken[i], one)
		lines = append(lines, Line{At: now, Name: p.Name, Figures: one.figures()})
	}
	for _, t := range w.Times {
		if s := t.take(); s.number > 0 {
			lines = append(lines, Line{At: now, Name: t.Name, Figures: s.figures()})
		}
	}
	return errors.Join(w.Undisturbed(), Write(w.Lines, lines...))
}

// Table has what each process took, for people.
func (w *Watch) Table() []string {
	table := []string{fmt.Sprintf("%-28s %-12s the least of the first and the last quarter of %d samples; may grow by", "", "", len(w.taken[0]))}
	for i, p := range w.Processes {
		first, last := w.taken[i].quarters()
		for j, m := range measures {
			table = append(table, fmt.Sprintf("%-28s %-12s %6d %6d %6s", p.Name, m.name, first[j], last[j], m.allowed()))
		}
	}
	for _, t := range w.Times {
		table = append(table, fmt.Sprintf("%-28s %s", t.Name, t.total()))
	}
	return table
}

// Grown tells which process has grown by more than it may.
func (w *Watch) Grown() (grown []string) {
	for i, p := range w.Processes {
		for _, one := range growth(w.taken[i].quarters()) {
			grown = append(grown, p.Name+": "+one)
		}
	}
	return grown
}
