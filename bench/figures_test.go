package main

import (
	"math"
	"testing"
)

func TestQuantiles(t *testing.T) {
	s := series{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.75: 4, 0.9: 4.6, 1: 5} {
		if got := s.quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if s[0] != 5 {
		t.Error("the rounds are in another order now, and no longer belong to those of others")
	}
	if !math.IsNaN((series{}).median()) {
		t.Error("nothing has a median")
	}
}

// A machine that is three times as slow in one round is so for both.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	ours, theirs := series{10, 30, 10}, series{5, 15, 5}
	ratios := ours.to(theirs)
	if len(ratios) != 3 || ratios.quantile(0) != 2 || ratios.quantile(1) != 2 {
		t.Errorf("%v, want 2 three times", ratios)
	}
	if got := (series{1, 2}).to(series{0, 1}); len(got) != 1 || got[0] != 2 {
		t.Errorf("%v, want only the round that has a ratio", got)
	}
}
