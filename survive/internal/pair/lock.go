package pair

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// The bytes of daemon.lock, and which process holds a lock on them. The kernel
// removes the locks of a process that ends, however it ends.
const (
	activeByte  int64 = 0
	standbyByte int64 = 1
)

// Locks say who has the locks of the pair. A holder need not be alive: a process that was
// killed keeps its locks for as long as one of its threads waits in the kernel.
type Locks struct {
	Active, Standby Holder
}

// OpenLock opens daemon.lock for the pair's processes, and makes it if need be. They inherit
// the open file.
func (at Place) OpenLock() (*os.File, error) {
	return os.OpenFile(at.Lock, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

// Held tells whether anybody has a lock.
func (l Locks) Held() bool { return l.Active.Held || l.Standby.Held }

// name tells whether the kernel names a process as the holder of a lock.
func (l Locks) name(pid int) bool {
	return pid > 0 && (pid == l.Active.PID || pid == l.Standby.PID)
}

// State is the better one of the two.
func (l Locks) State() State {
	active := l.Active.State()
	if active == Alive {
		return Alive // nothing is better, and to look costs time
	}
	return max(active, l.Standby.State())
}

// Find asks the kernel who holds the locks of daemon.lock. A file that does not exist is
// held by nobody.
//
// The order cannot miss a process that takes over: it has the standby's lock until it has
// the active one's. A process that was standby at the first question is seen there. If it
// takes over before the second, it is seen as active. If it then dies, its own standby is
// seen at the third.
func (at Place) Find() (locks Locks, err error) {
	file, err := os.Open(at.Lock)
	if errors.Is(err, fs.ErrNotExist) {
		return Locks{}, nil
	} else if err != nil {
		return Locks{}, err
	}
	defer file.Close()
	for _, ask := range []struct {
		b      int64
		holder *Holder
	}{{standbyByte, &locks.Standby}, {activeByte, &locks.Active}, {standbyByte, &locks.Standby}} {
		if *ask.holder, err = holderOf(file, ask.b); err != nil {
			return Locks{}, err
		}
		ask.holder.user = at.User.UID
		if ask.b == activeByte && locks.Held() {
			break
		}
	}
	return locks, nil
}

func byteLock(kind int16, b int64) unix.Flock_t {
	return unix.Flock_t{Type: kind, Start: b, Len: 1}
}
