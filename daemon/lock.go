package daemon

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// The bytes of daemon.lock, and which process holds a lock on them. The kernel
// removes the locks of a process that ends, however it ends.
const (
	activeByte  = 0
	standbyByte = 1
)

// PIDs of the pair; 0 where there is none.
type PIDs struct {
	Active, Standby int
}

// Alive tells whether the connection is served, or will be in a moment.
func (p PIDs) Alive() bool { return p.Active != 0 || p.Standby != 0 }

// Find asks the kernel who holds the locks of a daemon.lock. A file that does
// not exist is held by nobody.
func Find(path string) (pids PIDs, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return PIDs{}, nil
	} else if err != nil {
		return PIDs{}, err
	}
	defer file.Close()
	for b, pid := range map[int64]*int{activeByte: &pids.Active, standbyByte: &pids.Standby} {
		if *pid, err = holder(file, b); err != nil {
			return PIDs{}, err
		}
	}
	return pids, nil
}

func holder(file *os.File, b int64) (pid int, err error) {
	query := byteLock(unix.F_WRLCK, b)
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &query); err != nil {
		return 0, &fs.PathError{Op: "query the lock of", Path: file.Name(), Err: err}
	}
	if query.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(query.Pid), nil
}

// acquire waits until nobody else holds the byte. The process must not close
// any descriptor of the file from then on: that would release its locks
// (man 2 fcntl_locking).
func acquire(file *os.File, b int64) error {
	for {
		lock := byteLock(unix.F_WRLCK, b)
		err := unix.FcntlFlock(file.Fd(), unix.F_SETLKW, &lock)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("lock daemon.lock", err)
		}
	}
}

func release(file *os.File, b int64) error {
	lock := byteLock(unix.F_UNLCK, b)
	return os.NewSyscallError("unlock daemon.lock", unix.FcntlFlock(file.Fd(), unix.F_SETLK, &lock))
}

func byteLock(kind int16, b int64) unix.Flock_t {
	return unix.Flock_t{Type: kind, Start: b, Len: 1}
}
