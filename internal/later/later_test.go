package later

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A key with thousands of functions keeps no other one waiting for longer than a call.
func TestKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, each = 4000, 10 * time.Millisecond
		q, began := new(Queue[string]), time.Now()
		made, at, lone := 0, time.Duration(0), time.Duration(0)
		for range many {
			q.Add("one", func() { time.Sleep(each); made++ })
		}
		time.Sleep(10*each + each/2)
		at = time.Since(began)
		q.Add("two", func() { lone = time.Since(began) - at })
		time.Sleep(2 * many * each)
		synctest.Wait()
		if lone > 2*each {
			t.Errorf("the other key waited %v, and a call takes %v", lone, each)
		}
		if made != many || len(q.waits) != 0 {
			t.Errorf("%d calls were made of %d, and %d keys are left", made, many, len(q.waits))
		}
	})
}

// A key that has its turn keeps no other one waiting, as long as there are places.
func TestSomeKeysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, over := &Queue[string]{AtOnce: 2}, make(chan struct{})
		var mu sync.Mutex
		taken := map[string]int{}
		take := func(key string) {
			go func() {
				release := q.Take(key)
				mu.Lock()
				taken[key]++
				mu.Unlock()
				<-over
				release()
			}()
			synctest.Wait()
		}
		for range 4 {
			take("one")
		}
		take("two")
		take("three")
		if taken["one"] != 1 || taken["two"] != 1 || taken["three"] != 0 {
			t.Errorf("two keys can have a turn: %v", taken)
		}
		close(over)
		synctest.Wait()
		if taken["one"] != 4 || taken["two"] != 1 || taken["three"] != 1 {
			t.Errorf("all have had theirs: %v", taken)
		}
	})
}

func TestMostOfAKeyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, made := &Queue[string]{Most: 10}, 0
		add := func(key string) bool { return q.Add(key, func() { time.Sleep(time.Second); made++ }) }
		add("one")
		synctest.Wait() // it is called
		added := 0
		for range 12 {
			if add("one") {
				added++
			}
		}
		if !add("two") || added != 10 {
			t.Errorf("%d of the first key wait, and one of the other", added)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if made != 12 || !add("one") {
			t.Errorf("%d calls were made", made)
		}
		time.Sleep(time.Minute)
	})
}
