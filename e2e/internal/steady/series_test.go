package steady

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// One who does not leak has garbage and clients, and one who leaks has them too.
func TestGrowth(t *testing.T) {
	const samples, uss, threads, descriptors = 80, 0, 2, 3
	for name, c := range map[string]struct {
		change func(s sample, i int) sample
		grows  bool
	}{
		"nothing":         {func(s sample, i int) sample { return s }, false},
		"a late thread":   {func(s sample, i int) sample { s[threads] += i / 60; return s }, false},
		"35 KiB a sample": {func(s sample, i int) sample { s[uss] += 35 * i; return s }, true},
		"5 threads":       {func(s sample, i int) sample { s[threads] += i / 13; return s }, true},
		"one descriptor":  {func(s sample, i int) sample { s[descriptors] += i / 40; return s }, true},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		var all series
		for i := range samples {
			noise := sample{uss: 3500 + random.IntN(700), threads: 9 + random.IntN(2), descriptors: 13 + random.IntN(4)}
			all = append(all, c.change(noise, i))
		}
		if grown := growth(all.quarters()); (len(grown) > 0) != c.grows {
			t.Errorf("%s: grown is %q", name, grown)
		}
		slices.Reverse(all)
		if grown := growth(all.quarters()); len(grown) > 0 {
			t.Errorf("%s, in reverse: grown is %q", name, grown)
		}
	}
}
