package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stall is the time that an operation took.
type stall struct {
	operation string
	took      time.Duration
}

func (s stall) String() string { return fmt.Sprintf("%s ms (%s)", ms(s.took), s.operation) }

func longer(a, b stall) stall {
	if b.took > a.took {
		return b
	}
	return a
}

// stalls are the longest ones. Those of the time in which nothing was done to any process
// tell what the load alone does to the readers, on the same machine at the same time.
type stalls struct{ replacing, otherwise stall }

func (s stalls) with(one stall, replacing bool) stalls {
	if replacing {
		s.replacing = longer(s.replacing, one)
	} else {
		s.otherwise = longer(s.otherwise, one)
	}
	return s
}

func (s stalls) and(other stalls) stalls {
	return stalls{longer(s.replacing, other.replacing), longer(s.otherwise, other.otherwise)}
}

// replacements are counted when they begin and when they end, when there are two
// processes again: the count is odd while one is on.
type replacements struct{ count atomic.Uint32 }

func (r *replacements) beginOrEnd()    { r.count.Add(1) }
func (r *replacements) number() uint32 { return r.count.Load() }

// since tells whether one was on at some time since.
func (r *replacements) since(number uint32) bool { return number%2 == 1 || r.number() != number }
