package connection

import (
	"testing"
	"testing/synctest"
	"time"
)

// A volume of which thousands are sent signals keeps no other one waiting for longer than a look.
func TestLooksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, each = 4000, 10 * time.Millisecond
		l, began := newLooks(), time.Now()
		made, at, lone := 0, time.Duration(0), time.Duration(0)
		for range many {
			l.add(1, func() { time.Sleep(each); made++ })
		}
		time.Sleep(10*each + each/2)
		at = time.Since(began)
		l.add(2, func() { lone = time.Since(began) - at })
		time.Sleep(2 * many * each)
		synctest.Wait()
		if lone > 2*each {
			t.Errorf("the other volume waited %v, and a look takes %v", lone, each)
		}
		if made != many || len(l.waits) != 0 {
			t.Errorf("%d looks were made of %d, and %d volumes are left", made, many, len(l.waits))
		}
	})
}
