package main

import "testing"

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
