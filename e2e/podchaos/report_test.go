package main

import (
	"slices"
	"testing"
	"time"
)

// Each row has one thing wrong, or nothing.
func TestJudge(t *testing.T) {
	fine := func() row {
		return row{name: "bindfs", seen: seen{Operations: 9, Open: map[string]int{"read ESTALE": 2}, Repeated: map[string]int{"mkdir EEXIST": 1}}}
	}
	for name, c := range map[string]struct {
		mutate     func(*seen)
		violations int
	}{
		"what was open is stale":    {func(*seen) {}, 0},
		"a path is stale":           {func(s *seen) { s.Paths = map[string]int{"stat ESTALE": 1} }, 1},
		"a path has no program":     {func(s *seen) { s.Paths = map[string]int{"stat ENOTCONN": 1} }, 1},
		"what was open was aborted": {func(s *seen) { s.Open["read ECONNABORTED"] = 1 }, 1},
		"what was read is wrong":    {func(s *seen) { s.Open["read WRONG"] = 1 }, 1},
		"nothing was read":          {func(s *seen) { s.Operations = 0 }, 1},
	} {
		one, r := fine(), newReport(false)
		c.mutate(&one.seen)
		r.judge(one)
		if r.violations != c.violations {
			t.Errorf("%s: %d violations, want %d", name, r.violations, c.violations)
		}
		if got := r.print(); got != min(c.violations, 1) {
			t.Errorf("%s: exit status %d", name, got)
		}
	}
}

// Of Linux before 6.9, some errors are told, and are no violation where they are allowed; others
// still are.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		kind       string
		allowed    bool
		violations int
	}{
		"of a stand-in":           {"stat EINTR", true, 0},
		"of a dead program":       {"stat ECONNABORTED", true, 0},
		"of its connection's end": {"stat nothing ENOTCONN", true, 0},
		"not allowed":             {"stat EINTR", false, 2},
		"another one, before 6.9": {"stat EIO", true, 2},
	} {
		one, r := row{seen: seen{Operations: 9, Paths: map[string]int{c.kind: 3}, Open: map[string]int{c.kind: 4}}}, newReport(false)
		r.before6_9 = c.allowed
		r.judge(one)
		if r.violations != c.violations {
			t.Errorf("%s: %d violations, want %d", name, r.violations, c.violations)
		}
		if told := slices.Contains(r.lines, ", by , allowed: 7 × "+c.kind); told != (c.violations == 0) {
			t.Errorf("%s: it is told: %t; all that is: %q", name, told, r.lines)
		}
	}
}

// Who reads of an error can tell whether a program died, was away, or served.
func TestWhenItFailed(t *testing.T) {
	const ms = int64(time.Millisecond)
	one := row{kills: []int64{1000 * ms, 2000 * ms}, outages: []time.Duration{70 * time.Millisecond}, seen: seen{Failures: []failure{
		{Kind: "stat ENOENT", Text: "stat", From: 900 * ms, To: 950 * ms},
		{Text: "getdents", Open: true, From: 990 * ms, To: 1010 * ms},
		{Text: "read", Open: true, From: 2001 * ms, To: 2003 * ms},
	}}}
	const paths = "\n\tstat (before the first kill)"
	const open = "\n\tgetdents (begun -10.0 ms, ended 10.0 ms after kill 1, after which it was 70.0 ms until a program answered)" +
		"\n\tread (begun 1.0 ms, ended 3.0 ms after kill 2)"
	if got := one.failures(false); got != paths {
		t.Errorf("of paths: %q", got)
	}
	if got := one.failures(true); got != open {
		t.Errorf("of what was open: %q", got)
	}
}

// The kernel's own errors are told, and no violations, but they do not hide others.
func TestTorn(t *testing.T) {
	const kill = int64(time.Second)
	for name, c := range map[string]struct {
		kind       string
		open       bool
		after      time.Duration
		times      int
		violations int
	}{
		"of a path, at a kill":    {"open EIO", false, time.Millisecond, 1, 0},
		"of what was open":        {"getdents EIO", true, time.Millisecond, 1, 0},
		"before the kill":         {"open EIO", false, -time.Millisecond, 1, 1},
		"long after it":           {"open EIO", false, soonest + 1, 1, 1},
		"another error":           {"open ENOTCONN", false, time.Millisecond, 1, 1},
		"too many":                {"open EIO", false, time.Millisecond, 2, 1},
		"more than are told of":   {"open EIO", false, time.Millisecond, mostFailures + 1, 2},
		"another of what is open": {"read ENOTCONN", true, time.Millisecond, 1, 1},
	} {
		one := row{name: "gocryptfs", kills: []int64{kill}, seen: seen{Operations: 1, Paths: map[string]int{}, Open: map[string]int{}}}
		where := one.seen.Paths
		if c.open {
			where = one.seen.Open
		}
		where[c.kind] = c.times
		for range min(c.times, mostFailures) {
			one.seen.Failures = append(one.seen.Failures, failure{Kind: c.kind, Open: c.open, From: kill - 1, To: kill + int64(c.after)})
		}
		r := newReport(false)
		r.judge(one)
		if r.violations != c.violations {
			t.Errorf("%s: %d violations, want %d", name, r.violations, c.violations)
		}
	}
}

// A control that sees no error, or another than it is for, has failed.
func TestControl(t *testing.T) {
	broken := row{seen: seen{Operations: 1, Paths: map[string]int{"stat ENOTCONN": 1}}}
	for name, c := range map[string]struct {
		do   func(*report)
		want int
	}{
		"errors are seen":         {func(r *report) { r.judge(broken) }, 0},
		"no error is seen":        {func(*report) {}, 1},
		"something else is wrong": {func(r *report) { r.judge(broken); r.violation("a mount is left") }, 1},
	} {
		r := newReport(true)
		c.do(r)
		if got := r.print(); got != c.want {
			t.Errorf("%s: exit status %d, want %d", name, got, c.want)
		}
	}
}
