package connection

import "slices"

// turns are requests that were read and wait for an answer: those of a volume in the order in
// which they came, and the volumes in turn. So a request waits for at most one request of
// each other volume, however many readers one has.
type turns struct {
	queues []queue // of the volumes that have any, in the order of their turns
	slots  []slot  // no more than were ever needed at once
	free   uint16  // the first slot that is free again, or none
}

// queue are the requests of one volume.
type queue struct {
	volume      uint64
	first, last uint16 // slots
}

type slot struct {
	next    uint16 // slot
	length  uint16
	request [slotSize]byte
}

const (
	// slotSize has room for the requests of which there may be many. A longer one, for a
	// name of more than 119 bytes, is answered when it is read.
	slotSize = 160
	// maxWaiting is how many wait here at most. The others wait in the kernel.
	maxWaiting = 1024

	noSlot = maxWaiting
)

func newTurns() turns { return turns{free: noSlot} }

func (t *turns) none() bool { return len(t.queues) == 0 }

func (t *turns) full() bool { return t.free == noSlot && len(t.slots) == maxWaiting }

// add lets a copy of a request wait, and reports false if it is too long for that.
func (t *turns) add(request []byte, volume uint64) bool {
	if len(request) > slotSize {
		return false
	}
	at := t.take()
	s := &t.slots[at]
	s.next, s.length = noSlot, uint16(copy(s.request[:], request))
	for i := range t.queues {
		if q := &t.queues[i]; q.volume == volume {
			t.slots[q.last].next = at
			q.last = at
			return true
		}
	}
	t.queues = append(t.queues, queue{volume, at, at})
	return true
}

// take returns a slot that is free.
func (t *turns) take() uint16 {
	if t.free == noSlot {
		t.slots = append(t.slots, slot{})
		return uint16(len(t.slots) - 1)
	}
	at := t.free
	t.free = t.slots[at].next
	return at
}

// next copies the request whose turn it is, and returns its length.
func (t *turns) next(buffer []byte) int {
	q := t.queues[0]
	t.queues = slices.Delete(t.queues, 0, 1)
	at := q.first
	s := &t.slots[at]
	n := copy(buffer, s.request[:s.length])
	if q.first = s.next; q.first != noSlot {
		t.queues = append(t.queues, q) // behind all others
	}
	s.next, t.free = t.free, at
	return n
}
