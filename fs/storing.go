package fs

import (
	"sync/atomic"
	"time"
)

// storing bounds what waits for the page cache. The kernel locks a page to fill it,
// and so does a reader whose page is missing, until his request is answered: by us.
// Any pod can have the kernel drop the pages of a file that it has open
// (posix_fadvise(2)) and read them again. If all who answer waited for such a page,
// nobody would be left to answer, and the wait cannot be ended, not even with the
// process. So another goroutine waits, of which there is one at a time.
type storing struct {
	slot  chan struct{} // has an element while one is under way
	stuck atomic.Bool   // it takes longer than storeTime

	lastMissed atomic.Int64 // when, in nanoseconds since 1970
}

const (
	// storeTime is how long an open waits for the page cache. To copy the largest fact
	// takes microseconds; but while an open has not been answered, nobody reads what it
	// stores, and so nobody holds a page of it.
	storeTime = 200 * time.Millisecond
	// slotTime is how long another open waits for that one, as long as no pages are
	// missed. Then it is short, because nobody else may be there to answer the reader
	// who holds one.
	slotTime      = 100 * time.Millisecond
	shortSlotTime = 5 * time.Millisecond
	missedTime    = time.Second // for which a missed page counts
)

// missed notes that somebody reads a page that the page cache does not have.
func (s *storing) missed() { s.lastMissed.Store(time.Now().UnixNano()) }

// patience is how long to wait for the slot.
func (s *storing) patience() time.Duration {
	if time.Since(time.Unix(0, s.lastMissed.Load())) < missedTime {
		return shortSlotTime
	}
	return slotTime
}

// store puts a file's content into the page cache, and reports whether it is there. If
// not, because that takes too long, reads ask us.
func (f *FS) store(node uint64, content []byte) bool {
	s := &f.storing
	select {
	case s.slot <- struct{}{}:
	default:
		if s.stuck.Load() {
			return false
		}
		select {
		case s.slot <- struct{}{}:
		case <-time.After(s.patience()):
			return false
		}
	}
	done := make(chan error, 1)
	go func(store func(uint64, []byte) error) {
		err := store(node, content)
		s.stuck.Store(false)
		<-s.slot
		done <- err
	}(f.Store)
	select {
	case err := <-done:
		return err == nil
	case <-time.After(storeTime):
		s.stuck.Store(true)
		return false
	}
}
