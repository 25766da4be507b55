package daemon

import (
	"encoding/json"
	"testing"
)

// The signs of life are understood by versions that decode them, and say the same as
// what those send.
func TestSignsOfLifeAreMessagesLikeOthers(t *testing.T) {
	for _, kind := range []string{ping, pong} {
		m := message{Kind: kind}
		encoded, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.encode(); string(got) != string(encoded) {
			t.Errorf("%s is %s, want %s", kind, got, encoded)
		}
		if n := testing.AllocsPerRun(100, func() {
			if got, err := decode(m.encode()); got != m || err != nil {
				t.Errorf("%s is understood as %+v, %v", kind, got, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
	}
}
