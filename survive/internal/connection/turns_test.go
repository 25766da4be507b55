package connection

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// order lets requests wait, and returns them in the order in which they are served.
func order(t *testing.T, turns *turns, requests []string) (served []string) {
	t.Helper()
	for _, r := range requests {
		if !turns.add([]byte(r), uint64(r[0])) {
			t.Fatalf("%s may not wait", r)
		}
	}
	buffer := make([]byte, slotSize)
	for !turns.none() {
		served = append(served, string(buffer[:turns.next(buffer)]))
	}
	return served
}

func TestVolumesAreServedInTurn(t *testing.T) {
	for _, row := range []struct{ come, served []string }{
		{nil, nil},
		{[]string{"a1", "a2", "a3"}, []string{"a1", "a2", "a3"}},
		{[]string{"a1", "a2", "a3", "b1"}, []string{"a1", "b1", "a2", "a3"}},
		{[]string{"a1", "a2", "b1", "b2", "c1"}, []string{"a1", "b1", "c1", "a2", "b2"}},
	} {
		turns := newTurns()
		if got := order(t, &turns, row.come); !slices.Equal(got, row.served) {
			t.Errorf("%v are served as %v, want %v", row.come, got, row.served)
		}
	}
}

// A volume with one request after the other does not overtake a volume with many that wait.
func TestNobodyIsOvertakenTwice(t *testing.T) {
	turns := newTurns()
	for i := range 10 {
		turns.add(fmt.Append(nil, "a", i), 'a')
	}
	buffer := make([]byte, slotSize)
	turns.add([]byte("b"), 'b')
	turns.add([]byte("c"), 'c')
	var served string
	for range 9 {
		n := turns.next(buffer)
		served += string(buffer[0])
		if buffer[0] != 'a' { // its sender is answered, and sends the next one
			turns.add(buffer[:n], uint64(buffer[0]))
		}
	}
	if served != "abcabcabc" {
		t.Errorf("served %s", served)
	}
}

func TestWhatMayWait(t *testing.T) {
	turns := newTurns()
	if turns.add(make([]byte, slotSize+1), 1) || !turns.none() {
		t.Error("a request that is too long waits")
	}
	longest := slices.Repeat([]byte{7}, slotSize)
	for !turns.full() {
		if !turns.add(longest, rand.Uint64N(5)) {
			t.Fatal("the longest request may not wait")
		}
	}
	buffer := make([]byte, slotSize)
	for range maxWaiting {
		if n := turns.next(buffer); !slices.Equal(buffer[:n], longest) {
			t.Fatal("a request has changed while it waited")
		}
	}
	if !turns.none() {
		t.Error("more came out than went in")
	}
}

// Nothing is lost or served twice, those of a volume keep their order, and a volume
// that has one waiting is served at the latest after one of each other.
func FuzzTurns(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0x80, 2, 0x80, 0x80, 0x80})
	f.Add([]byte{1, 1, 1, 1, 0x80, 2, 0x80, 0x80})
	f.Fuzz(func(t *testing.T, steps []byte) {
		turns, buffer := newTurns(), make([]byte, slotSize)
		var (
			come    [4][]byte // by volume: what waits, in its order
			skipped [4]int    // and how many of others were served since it waits
		)
		for i, step := range steps {
			if volume := step & 3; step < 0x80 && !turns.full() {
				turns.add([]byte{volume, byte(i)}, uint64(volume))
				come[volume] = append(come[volume], byte(i))
			} else if !turns.none() {
				n := turns.next(buffer)
				served := buffer[0]
				if n != 2 || len(come[served]) == 0 || come[served][0] != buffer[1] {
					t.Fatalf("step %d: served %v, volume %d has %v waiting", i, buffer[:n], served, come[served])
				}
				come[served], skipped[served] = come[served][1:], 0
				for v := range come {
					if len(come[v]) == 0 {
						skipped[v] = 0
					} else if byte(v) != served {
						if skipped[v]++; skipped[v] >= len(come) {
							t.Fatalf("step %d: volume %d was overtaken %d times", i, v, skipped[v])
						}
					}
				}
			}
		}
	})
}
