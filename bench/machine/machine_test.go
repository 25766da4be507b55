package machine

import "testing"

func TestTicks(t *testing.T) {
	for stat, want := range map[string][3]int64{
		"cpu  10 1 5 100 4 0 2 3 0 0\ncpu0 1 1 1 1\n": {104, 125, 3},
		"": {0, 0, 0},
	} {
		if idle, all, stolen := ticksOf(stat); idle != want[0] || all != want[1] || stolen != want[2] {
			t.Errorf("of %q: %v of %v, %v stolen, want %v", stat, idle, all, stolen, want)
		}
	}
}
