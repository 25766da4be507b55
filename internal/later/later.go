// Package later has work done later.
package later

import "sync"

// Queue calls functions one at a time: those with the same key in their order, and the keys in
// turn. Its zero value is ready for use.
type Queue[K comparable] struct {
	mu    sync.Mutex     // guards what follows
	turn  chan struct{}  // taken by who is called
	waits map[K][]func() // by key; each has a goroutine
}

// Add has a function called. It does not wait.
func (q *Queue[K]) Add(key K, call func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waits == nil {
		q.turn, q.waits = make(chan struct{}, 1), map[K][]func(){}
	}
	all, begun := q.waits[key]
	q.waits[key] = append(all, call)
	if !begun {
		go q.callAll(key)
	}
}

// callAll calls the functions of a key until there are no more.
func (q *Queue[K]) callAll(key K) {
	for {
		q.mu.Lock()
		all := q.waits[key]
		if len(all) == 0 {
			delete(q.waits, key)
			q.mu.Unlock()
			return
		}
		q.waits[key] = all[1:]
		q.mu.Unlock()
		q.turn <- struct{}{} // which goes to those who wait in their order
		all[0]()
		<-q.turn
	}
}
