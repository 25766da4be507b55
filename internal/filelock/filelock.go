// Package filelock takes locks of files, for which it waits no longer than it is told.
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

// Within tries to lock a file until a deadline, and returns [ErrLocked] then. It does not wait in the kernel:
// nothing would end that.
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
