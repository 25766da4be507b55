package connection

import "sync"

// looks are made one at a time, and the volumes take turns. A look at a process waits for a lock of that process,
// which its threads can keep busy by signals: the worker that reads requests must not wait for it, nor
// the looks at other volumes' processes behind thousands of it.
type looks struct {
	turn chan struct{} // taken by who looks

	mu    sync.Mutex
	waits map[uint64][]func() // by volume; each has a goroutine
}

func newLooks() looks { return looks{turn: make(chan struct{}, 1), waits: map[uint64][]func(){}} }

// add has a function called.
func (l *looks) add(volume uint64, look func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, begun := l.waits[volume]
	l.waits[volume] = append(all, look)
	if !begun {
		go l.make(volume)
	}
}

// make makes the looks of a volume until there are no more.
func (l *looks) make(volume uint64) {
	for {
		l.mu.Lock()
		all := l.waits[volume]
		if len(all) == 0 {
			delete(l.waits, volume)
			l.mu.Unlock()
			return
		}
		l.waits[volume] = all[1:]
		l.mu.Unlock()
		l.turn <- struct{}{} // which goes to those who wait in their order
		all[0]()
		<-l.turn
	}
}
