package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// report is what was seen. Violations are printed as they come, for a run that
// does not end; the figures, at the end.
type report struct {
	settings
	began time.Time
	look  func() string // describes what may be the reason of a violation

	mu         sync.Mutex // guards what follows
	violations int
	errors     int
	eintrs     int
	operations int
	by         int           // that many readers
	read       time.Duration // for how long the readers read
	stalls     stalls
	lines      []string // what else is to be printed
	takeovers  []time.Duration
	recoveries []time.Duration
}

func newReport(s settings) *report {
	return &report{settings: s, began: time.Now(), look: func() string { return "" }}
}

// violation tells about something that must not be.
func (r *report) violation(format string, args ...any) {
	at := time.Since(r.began)
	r.mu.Lock()
	r.violations++
	number := r.violations
	r.mu.Unlock()
	const most = 30
	if number <= most {
		fmt.Fprintf(os.Stderr, "%8.3f s: VIOLATION: %s\n%s", at.Seconds(), fmt.Sprintf(format, args...), r.look())
	}
}

// readerFailed counts the error of an operation.
func (r *report) readerFailed(err error) {
	interrupted := errors.Is(err, unix.EINTR)
	r.mu.Lock()
	if interrupted {
		r.eintrs++
	} else {
		r.errors++
	}
	r.mu.Unlock()
	if !interrupted || !r.eintrAllowed {
		r.violation("%v", err)
	}
}

func (r *report) interruptions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.eintrs
}

// note adds a line to what is printed at the end.
func (r *report) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// recovered adds how long it took until both processes were there again.
func (r *report) recovered(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recoveries = append(r.recoveries, took)
}

// tookOver checks that there was one take-over since, for this cause, and adds
// its time.
func (r *report) tookOver(before, now status, causes ...string) {
	last := now.Daemon.LastTakeover
	if since := now.Daemon.Takeovers - before.Daemon.Takeovers; since != 1 || last == nil || !slices.Contains(causes, last.Cause) {
		r.violation("%d take-overs in the place of one with a cause of %q; the last is %+v", since, causes, last)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeovers = append(r.takeovers, time.Duration(last.Milliseconds*float64(time.Millisecond)))
}

// reading adds what the readers have done so far.
func (r *report) reading(all readers) {
	took := time.Since(all.began)
	for _, one := range all.all {
		if one.apart {
			continue
		}
		one.mu.Lock()
		done, stalls := one.done, one.stalled()
		one.mu.Unlock()
		r.mu.Lock()
		r.by, r.operations, r.stalls, r.read = r.by+1, r.operations+done, r.stalls.and(stalls), took
		r.mu.Unlock()
	}
}

// print prints the figures and returns the exit status of the program.
func (r *report) print() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by > 0 {
		fmt.Printf("operations      %d in %.1f s, by %d readers\n", r.operations, r.read.Seconds(), r.by)
		fmt.Printf("errors          %d, and EINTR %d times\n", r.errors, r.eintrs)
		if r.stalls.replacing.took > 0 {
			fmt.Printf("longest stall   %v, while a process was replaced\n", r.stalls.replacing)
			fmt.Printf("        else    %v\n", r.stalls.otherwise)
		} else {
			fmt.Printf("longest stall   %v\n", r.stalls.otherwise)
		}
	}
	for _, line := range r.lines {
		fmt.Println(line)
	}
	if len(r.takeovers) > 0 {
		fmt.Printf("take-overs      %s\n", spread(r.takeovers))
	}
	if len(r.recoveries) > 0 {
		fmt.Printf("two processes   %s until they are there again\n", spread(r.recoveries))
	}
	if r.violations > 0 {
		fmt.Printf("FAILED          %d violations\n", r.violations)
		return 1
	}
	fmt.Println("ok")
	return 0
}

// spread tells the number, the median and the greatest of some times.
func spread(times []time.Duration) string {
	slices.Sort(times)
	return fmt.Sprintf("%d: median %s ms, at most %s ms", len(times), ms(times[len(times)/2]), ms(times[len(times)-1]))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
