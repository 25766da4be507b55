package connection

import "slices"

// turns are requests that were read and wait for being answered: those of a volume in
// the order in which they came, and the volumes in turn. So one whose readers
// hammer on it does not make those of the others wait for more than one request of
// each.
type turns struct {
	waiting []waiting // in the order in which they came
	volumes []uint64  // that have any, in the order of their turns
	free    []uint8   // slots
	slots   [][slotSize]byte
}

type waiting struct {
	volume uint64
	length uint16
	slot   uint8
}

const (
	// slotSize has room for the requests that the names and files of a volume make. A
	// longer one is for a name that is not there, and does not wait here.
	slotSize = 160
	// maxWaiting is how many wait here at most. The others wait in the kernel, in the
	// order in which they came.
	maxWaiting = 256
)

func newTurns() turns {
	t := turns{
		waiting: make([]waiting, 0, maxWaiting), volumes: make([]uint64, 0, maxWaiting),
		free: make([]uint8, maxWaiting), slots: make([][slotSize]byte, maxWaiting),
	}
	for i := range t.free {
		t.free[i] = uint8(maxWaiting - 1 - i) // so that memory that was never needed is never touched
	}
	return t
}

func (t *turns) none() bool { return len(t.waiting) == 0 }

func (t *turns) full() bool { return len(t.free) == 0 }

// add lets a copy of a request wait, and reports false if it is too long for that.
func (t *turns) add(request []byte, volume uint64) bool {
	if len(request) > slotSize {
		return false
	}
	last := len(t.free) - 1
	slot := t.free[last]
	t.free = t.free[:last]
	copy(t.slots[slot][:], request)
	t.waiting = append(t.waiting, waiting{volume, uint16(len(request)), slot})
	if !slices.Contains(t.volumes, volume) {
		t.volumes = append(t.volumes, volume)
	}
	return true
}

// next copies the request whose turn it is, and returns its length.
func (t *turns) next(buffer []byte) int {
	volume := t.volumes[0]
	t.volumes = slices.Delete(t.volumes, 0, 1)
	of := func(w waiting) bool { return w.volume == volume }
	first := slices.IndexFunc(t.waiting, of)
	w := t.waiting[first]
	t.waiting = slices.Delete(t.waiting, first, first+1)
	if slices.ContainsFunc(t.waiting[first:], of) {
		t.volumes = append(t.volumes, volume)
	}
	t.free = append(t.free, w.slot)
	return copy(buffer, t.slots[w.slot][:w.length])
}
