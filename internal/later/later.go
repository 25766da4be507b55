// Package later has work done later.
package later

import "sync"

// Queue calls functions one at a time: those with the same key in their order, and the keys in
// turn. Its zero value is ready for use.
type Queue[K comparable] struct {
	Most   int // how many of a key wait at most; 0: any number
	AtOnce int // for how many keys a function is called at the same time; 0: for one

	mu    sync.Mutex     // guards what follows
	turn  chan struct{}  // taken by those who are called
	waits map[K][]func() // by key; each has a goroutine
}

// Add has a function called. It does not wait. It returns false where no more of the key can wait.
func (q *Queue[K]) Add(key K, call func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waits == nil {
		q.turn, q.waits = make(chan struct{}, max(q.AtOnce, 1)), map[K][]func(){}
	}
	all, begun := q.waits[key]
	if q.Most > 0 && len(all) >= q.Most {
		return false
	}
	q.waits[key] = append(all, call)
	if !begun {
		go q.callAll(key)
	}
	return true
}

// Take waits until it is the caller's turn, which lasts until release is called. The queue must
// have no Most.
func (q *Queue[K]) Take(key K) (release func()) {
	begun, over := make(chan struct{}), make(chan struct{})
	q.Add(key, func() { close(begun); <-over })
	<-begun
	return func() { close(over) }
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
