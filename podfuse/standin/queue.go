package standin

import "sync"

// queue has values handled one after the other, by a goroutine that is there for as long as there are any.
type queue[T any] struct {
	handle func(T)

	mu     sync.Mutex // guards what follows
	values []T        // the first one is being handled
}

// add does not wait.
func (q *queue[T]) add(value T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.values = append(q.values, value); len(q.values) == 1 {
		go q.handleAll()
	}
}

func (q *queue[T]) handleAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.values) > 0 {
		value := q.values[0]
		q.mu.Unlock()
		q.handle(value)
		q.mu.Lock()
		q.values = q.values[1:]
	}
}
