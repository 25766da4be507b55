package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// report is what was seen. Violations are printed as they come, and the first ones again below the
// table: who has nothing but the end of a long output must see what failed.
type report struct {
	began time.Time

	control   bool // what is judged has to fail
	before6_9 bool // some errors are allowed

	mu         sync.Mutex // guards what follows
	violations int
	refuted    int      // of the violations, by the judgement
	first      []string // violations
	rows       []row
	lines      []string
}

// row is what one program's readers saw.
type row struct {
	name, by string
	kills    []int64 // when, as of seen
	seen     seen
	outages  []time.Duration // one for each kill; 0: no pulse was under way then, and nobody knows
	longest  time.Duration   // of an operation in an outage
	beats    []time.Duration // how long pulses took, whenever one looked
}

func newReport(control bool) *report { return &report{began: time.Now(), control: control} }

// violation tells about something that must not be.
func (r *report) violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violate(format, args...)
}

// torn takes out of what was seen the errors that are the kernel's own, and returns their counts: a
// program that is killed while the kernel copies a request for it into its memory, where the page
// is not there, fails the request with EIO (Linux 6.18, fs/fuse/dev.c, fuse_dev_do_read). Nobody
// else gets to see that request. They are mostly those of programs in Go, which give memory back.
func (r *row) torn() map[string]int {
	torn := map[string]int{}
	r.seen.Paths, r.seen.Open = maps.Clone(r.seen.Paths), maps.Clone(r.seen.Open)
	r.seen.Failures = slices.DeleteFunc(slices.Clone(r.seen.Failures), func(f failure) bool {
		n, _ := slices.BinarySearch(r.kills, f.To)
		if n == 0 || f.To-r.kills[n-1] > int64(soonest) || !strings.HasSuffix(f.Kind, " EIO") {
			return false
		}
		where := r.seen.Paths
		if f.Open {
			where = r.seen.Open
		}
		if where[f.Kind]--; where[f.Kind] == 0 {
			delete(where, f.Kind)
		}
		torn[f.Kind]++
		return true
	})
	return torn
}

// lost takes out of what was seen the errors with which requests are ended before Linux 6.9 that
// nobody can answer any more, and returns their counts: EINTR and ESTALE of the stand-ins, the
// others of the connection of a dead program.
func (r *row) lost() map[string]int {
	lost := map[string]int{}
	takeOut := func(kind string, n int) bool {
		if !slices.Contains([]string{"EINTR", "ESTALE", "ECONNABORTED", "ENOTCONN"}, kind[strings.LastIndex(kind, " ")+1:]) {
			return false
		}
		lost[kind] += n
		return true
	}
	r.seen.Paths, r.seen.Open = maps.Clone(r.seen.Paths), maps.Clone(r.seen.Open)
	maps.DeleteFunc(r.seen.Paths, takeOut)
	maps.DeleteFunc(r.seen.Open, takeOut)
	return lost
}

// soonest is how long after a kill no program has ever come back.
const soonest = 20 * time.Millisecond

// mostTold is how many failures are printed: those of a control are hundreds.
const mostTold = 30

// failures are the first ones of what was open, or of paths, with when they were: after which kill,
// and when the next program had answered.
func (r row) failures(open bool) (text string) {
	for _, f := range r.seen.Failures {
		if f.Open != open {
			continue
		}
		if strings.Count(text, "\n") == mostTold {
			return text + "\n\tand others"
		}
		n, _ := slices.BinarySearch(r.kills, f.To)
		when := "before the first kill"
		if n > 0 {
			when = fmt.Sprintf("begun %s ms, ended %s ms after kill %d", ms(time.Duration(f.From-r.kills[n-1])), ms(time.Duration(f.To-r.kills[n-1])), n)
		}
		if 0 < n && n <= len(r.outages) && r.outages[n-1] > 0 {
			when += fmt.Sprintf(", after which it was %s ms until a program answered", ms(r.outages[n-1]))
		}
		text += fmt.Sprintf("\n\t%s (%s)", f.Text, when)
	}
	return text
}

// refute tells about something that the control has to show, too.
func (r *report) refute(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violate(format, args...)
	r.refuted++
}

// violate reports a violation. The caller holds the lock.
func (r *report) violate(format string, args ...any) {
	at := time.Since(r.began)
	r.violations++
	text := fmt.Sprintf("%8.3f s: VIOLATION: %s", at.Seconds(), fmt.Sprintf(format, args...))
	if r.violations <= 40 {
		fmt.Fprintln(os.Stderr, text)
	}
	if len(r.first) < mostAgain {
		r.first = append(r.first, text)
	}
}

// mostAgain is how many violations are printed again at the end.
const mostAgain = 5

// check adds a violation for an error.
func (r *report) check(err error) {
	if err != nil {
		r.violation("%v", err)
	}
}

// note adds a line to what is printed at the end.
func (r *report) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// judge adds a row. No operation on a path may have failed, and what was open only with ESTALE, but
// for the few that are torn, and those that are allowed.
func (r *report) judge(one row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.violations
	defer func() { r.refuted += r.violations - before }()
	torn := one.torn()
	if r.before6_9 {
		if lost := one.lost(); len(lost) > 0 {
			r.lines = append(r.lines, fmt.Sprintf("%s, by %s, allowed: %s", one.name, one.by, counts(lost)))
		}
	}
	r.rows = append(r.rows, one)
	if len(torn) > 0 {
		r.lines = append(r.lines, fmt.Sprintf("%s, by %s, given up by the kernel as it was handed to a program that was killed: %s", one.name, one.by, counts(torn)))
	}
	if n := sum(torn); n > 1+len(one.kills)/10 {
		r.violate("%s, by %s: %d times EIO in %d kills, which is more than the kernel's", one.name, one.by, n, len(one.kills))
	}
	if len(one.seen.Paths) > 0 {
		r.violate("%s, by %s: errors of operations on paths: %s%s", one.name, one.by, counts(one.seen.Paths), one.failures(false))
	}
	if other := one.seen.otherOpen(); len(other) > 0 {
		r.violate("%s, by %s: errors of what was open: %s%s", one.name, one.by, counts(other), one.failures(true))
	}
	if one.seen.Operations == 0 {
		r.violate("%s, by %s: nothing was read", one.name, one.by)
	}
}

// print prints the figures and returns the exit status of the program.
func (r *report) print() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) > 0 {
		const format = "%-15s %-10s %5v %10v %7v %7v %6v %8v %9v %11v %8v %10v\n"
		fmt.Printf(format, "program", "by", "kills", "operations", "errors", "ESTALE", "else", "repeated", "outage ms", "at most ms", "usual ms", "longest ms")
		for _, one := range r.rows {
			other := sum(one.seen.otherOpen())
			stale := sum(one.seen.Open) - other
			outages := known(one.outages)
			outage, most := middle(outages)
			if n := len(one.outages) - len(outages); n > 0 {
				r.lines = append(r.lines, fmt.Sprintf("%s, by %s, %d of %d outages are not known: no pulse saw them", one.name, one.by, n, len(one.outages)))
			}
			usual, _ := middle(one.beats)
			fmt.Printf(format, one.name, one.by, len(one.kills), one.seen.Operations, sum(one.seen.Paths), stale, other, sum(one.seen.Repeated), outage, most, usual, ms(one.longest))
		}
	}
	for _, one := range r.rows {
		if len(one.seen.Repeated) > 0 {
			fmt.Printf("%s, by %s, changes under way: %s\n", one.name, one.by, counts(one.seen.Repeated))
		}
	}
	for _, line := range r.lines {
		fmt.Println(line)
	}
	switch {
	case r.control && r.refuted == 0:
		fmt.Println("FAILED: the control passed: errors would not have been seen")
		return 1
	case r.control && r.refuted == r.violations:
		fmt.Println("ok: without pod-fuse, it fails")
		return 0
	case r.violations > 0:
		fmt.Println(strings.Join(r.first, "\n"))
		fmt.Printf("FAILED: %d violations\n", r.violations)
		return 1
	}
	fmt.Println("ok")
	return 0
}

// known are the outages that a pulse saw.
func known(outages []time.Duration) []time.Duration {
	return slices.DeleteFunc(slices.Clone(outages), func(d time.Duration) bool { return d == 0 })
}

// otherOpen are the errors of what was open that must not be: all but ESTALE.
func (s seen) otherOpen() map[string]int {
	other := maps.Clone(s.Open)
	maps.DeleteFunc(other, func(key string, _ int) bool { return strings.HasSuffix(key, " ESTALE") })
	return other
}

func sum(all map[string]int) (n int) {
	for _, one := range all {
		n += one
	}
	return n
}

func counts(all map[string]int) string {
	var text []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		text = append(text, fmt.Sprintf("%d × %s", all[key], key))
	}
	return strings.Join(text, ", ")
}

// spread tells the number, the median and the greatest of some times.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "none"
	}
	median, most := middle(times)
	return fmt.Sprintf("%d: median %s ms, at most %s ms", len(times), median, most)
}

// middle is the median of some times, and the greatest, in milliseconds.
func middle(times []time.Duration) (median, most string) {
	if len(times) == 0 {
		return "-", "-"
	}
	return ms(medianOf(times)), ms(slices.Max(times))
}

// medianOf returns the median of some times; of two, the shorter one.
func medianOf(times []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(times))[(len(times)-1)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
