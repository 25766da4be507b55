// Package filelock takes locks of files, for which it waits no longer than it is told, and tells
// who has one.
package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process has a lock.
var ErrLocked = errors.New("another process holds it for too long")

// Flock returns a function that tries to lock a file with flock(2): unix.LOCK_SH or unix.LOCK_EX.
func Flock(how int) func(*os.File) error {
	return func(file *os.File) error { return unix.Flock(int(file.Fd()), how|unix.LOCK_NB) }
}

// Within tries to lock a file until a deadline, and returns [ErrLocked] then. It does not wait in
// the kernel: nothing would end that.
func Within(deadline time.Time, file *os.File, try func(*os.File) error) error {
	for {
		switch err := try(file); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN):
			return &fs.PathError{Op: "lock", Path: file.Name(), Err: err}
		case time.Now().After(deadline):
			return fmt.Errorf("lock %s: %w; see who with fuser", file.Name(), ErrLocked)
		default:
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// Holder asks the kernel who has a lock of fcntl(2) on some bytes of a file, on all from start on
// if length is 0: the number of the process that took it, or 0 if this PID namespace does not show
// it.
func Holder(file *os.File, start, length int64) (pid int, held bool, err error) {
	query := unix.Flock_t{Type: unix.F_WRLCK, Start: start, Len: length}
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &query); err != nil {
		return 0, false, &fs.PathError{Op: "query the lock of", Path: file.Name(), Err: err}
	}
	if query.Type == unix.F_UNLCK {
		return 0, false, nil
	}
	// It is 0 for a process of another PID namespace, and -1 for a lock of an open file
	// description (fs/locks.c, locks_translate_pid). To kill -1 would be to kill all.
	return max(0, int(query.Pid)), true, nil
}
