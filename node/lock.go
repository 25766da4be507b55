package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

type lockMode int

const (
	// shared: uses the daemon.
	shared lockMode = unix.LOCK_SH
	// exclusive: starts or ends the daemon.
	exclusive lockMode = unix.LOCK_EX
)

// lock takes the run directory's lock, making the directory if need be. It
// waits for somebody who starts a daemon, and for who waits for that one.
func (n Node) lock(mode lockMode) (unlock func(), err error) {
	deadline := time.Now().Add(3 * patience)
	for {
		if err := os.MkdirAll(n.RunDir, 0o750); err != nil {
			return nil, fmt.Errorf("make the run directory: %w", err)
		}
		file, err := os.OpenFile(n.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) && time.Now().Before(deadline) {
			continue // Stop removed the directory between the two
		} else if err != nil {
			return nil, err
		}
		if err := flock(file, mode, deadline); err != nil {
			file.Close()
			return nil, err
		}
		if n.isLockFile(file) {
			return func() { file.Close() }, nil
		}
		file.Close() // Stop removed the file while we waited: it locks nothing
	}
}

func flock(file *os.File, mode lockMode, deadline time.Time) error {
	for {
		err := unix.Flock(int(file.Fd()), int(mode)|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return &fs.PathError{Op: "lock", Path: file.Name(), Err: err}
		case time.Now().After(deadline):
			return fmt.Errorf("lock %s: another call-out holds it for too long; see who with fuser", file.Name())
		default:
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func (n Node) isLockFile(file *os.File) bool {
	held, heldErr := file.Stat()
	there, err := os.Stat(n.path("lock"))
	return err == nil && heldErr == nil && os.SameFile(held, there)
}
