package main

import (
	"testing"
	"time"
)

// An outage lasts until the pulse is answered that was held by it. Who was answered at its very
// beginning tells nothing.
func TestOutage(t *testing.T) {
	const ms, kill = int64(time.Millisecond), int64(time.Hour)
	one := func(name string, from, to int64) slow { return slow{name, kill + from*ms, kill + to*ms} }
	for name, c := range map[string]struct {
		slow           []slow
		until, longest int64
	}{
		"the pulse was held":             {[]slow{one(pulse, -1, 70), one("stat", -5, 90)}, 70, 90},
		"it began soon after":            {[]slow{one(pulse, -8, 2), one(pulse, 3, 60), one(pulse, 61, 70)}, 60, 57},
		"it ended at once, and was late": {[]slow{one(pulse, -8, 2), one("stat", -8, 95), one(pulse, 30, 60)}, 0, 95},
		"of another outage":              {[]slow{one(pulse, -900, -800), one("stat", 900, 950)}, 0, 0},
		"nothing was slow":               {nil, 0, 0},
	} {
		r := &reader{slow: c.slow}
		until, longest := r.outage(kill, kill+100*ms)
		if until != time.Duration(c.until*ms) || longest != time.Duration(c.longest*ms) {
			t.Errorf("%s: %v and %v, want %d and %d ms", name, until, longest, c.until, c.longest)
		}
	}
}
