package mounter

import (
	"testing"
	"testing/synctest"
	"time"
)

// A pod whose containers let nobody attach keeps the places of a pod, and no other pod's.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mounter{turns: make(chan func()), places: newPlaces()}
		go func() {
			for turn := range m.turns {
				turn()
			}
		}()
		defer close(m.turns)
		place := func(pod string) (leave func(), waited time.Duration, err error) {
			began := time.Now()
			leave, err = m.place(pod, began.Add(orderTime))
			return leave, time.Since(began), err
		}
		var taken []func()
		for range placesOfPod {
			leave, waited, err := place("hostile")
			if err != nil || waited != 0 {
				t.Fatalf("the first: after %v, %v", waited, err)
			}
			taken = append(taken, leave)
		}
		if _, waited, err := place("hostile"); err == nil || waited != orderTime {
			t.Errorf("one more than a pod may have: after %v, %v", waited, err)
		}
		leave, waited, err := place("another")
		if err != nil || waited != 0 {
			t.Fatalf("another pod: after %v, %v", waited, err)
		}
		leave()
		time.AfterFunc(time.Second, taken[0])
		leave, waited, err = place("hostile")
		if err != nil || waited != time.Second {
			t.Fatalf("when one is free again: after %v, %v", waited, err)
		}
		leave()
		taken[1]()
		if len(m.places.pods) > 0 || len(m.places.node) > 0 {
			t.Errorf("left: %v", m.places)
		}
	})
}
