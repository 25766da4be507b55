package steady

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// The figures of times that others ask for by their names.
const (
	Number  = "number"
	Median  = "median ms"
	P99     = "p99 ms" // as 99 of 100 took at most; of fewer, it is the longest
	Longest = "longest ms"
)

// Times are how long something took. A nil one takes nothing down.
type Times struct {
	Name string

	mu    sync.Mutex // guards what follows
	taken []time.Duration
	sums  []summary // of all that were taken away
}

// Add takes one down.
func (t *Times) Add(took ...time.Duration) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = append(t.taken, took...)
}

// Of takes down how long a function takes, if it does not fail.
func (t *Times) Of(do func() error) error {
	began := time.Now()
	err := do()
	if err == nil {
		t.Add(time.Since(began))
	}
	return err
}

// forget forgets what was taken down so far.
func (t *Times) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken, t.sums = nil, nil
}

// take summarises what was added since the last time.
func (t *Times) take() summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := summarise(t.taken)
	if t.taken = t.taken[:0]; s.number > 0 {
		t.sums = append(t.sums, s)
	}
	return s
}

// total describes all that was taken.
func (t *Times) total() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sums) == 0 {
		return "never"
	}
	var number int
	var longest time.Duration
	var medians, p99s []time.Duration
	for _, s := range t.sums {
		number, longest = number+s.number, max(longest, s.longest)
		medians, p99s = append(medians, s.median), append(p99s, s.p99)
	}
	return fmt.Sprintf("%8d times: median %.2f ms, 99 of 100 at most %.2f ms, longest %.2f ms; the first two, the median of %d looks",
		number, milliseconds(summarise(medians).median), milliseconds(summarise(p99s).median), milliseconds(longest), len(t.sums))
}

// summary is of the times between two looks.
type summary struct {
	number               int
	median, p99, longest time.Duration
}

// summarise sorts some times.
func summarise(taken []time.Duration) summary {
	n := len(taken)
	if n == 0 {
		return summary{}
	}
	slices.Sort(taken)
	return summary{n, taken[n/2], taken[n*99/100], taken[n-1]}
}

func (s summary) figures() map[string]float64 {
	return map[string]float64{
		Number: float64(s.number), Median: milliseconds(s.median), P99: milliseconds(s.p99), Longest: milliseconds(s.longest),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
