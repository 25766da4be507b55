package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Daemon is the process that serves the node mount.
type Daemon struct {
	PID int
}

// The daemon holds a lock on this byte of daemon.lock for as long as it lives.
const activeByte = 0

// daemon finds the daemon, nil when there is none.
func (n Node) daemon() (*Daemon, error) {
	file, err := os.Open(n.path("daemon.lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	query := byteLock(unix.F_WRLCK)
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &query); err != nil {
		return nil, &fs.PathError{Op: "query the lock of", Path: file.Name(), Err: err}
	}
	if query.Type == unix.F_UNLCK {
		return nil, nil
	}
	return &Daemon{PID: int(query.Pid)}, nil
}

// become takes the daemon's lock for this process, which must not close any
// descriptor of the file from then on: that would release it (man 2 fcntl).
func become(lock *os.File) error {
	mine := byteLock(unix.F_WRLCK)
	if err := unix.FcntlFlock(lock.Fd(), unix.F_SETLK, &mine); err != nil {
		return fmt.Errorf("lock daemon.lock: %w; another daemon serves", err)
	}
	return nil
}

func byteLock(kind int16) unix.Flock_t {
	return unix.Flock_t{Type: kind, Start: activeByte, Len: 1}
}

// end ends the daemon, if there is one, and waits until it is gone.
func (n Node) end() error {
	for _, signal := range []os.Signal{unix.SIGTERM, unix.SIGKILL} {
		daemon, err := n.daemon()
		if err != nil || daemon == nil {
			return err
		}
		if err := n.signal(daemon, signal); err != nil {
			return err
		}
		if err := n.awaitEnd(patience / 2); err == nil {
			return nil
		}
	}
	return n.awaitEnd(patience / 2)
}

// signal signals the daemon, and no other process that got its PID meanwhile.
func (n Node) signal(daemon *Daemon, signal os.Signal) error {
	// Where the kernel has pidfds, this holds on to the process.
	process, err := os.FindProcess(daemon.PID)
	if err != nil {
		return err
	}
	defer process.Release()
	if now, err := n.daemon(); err != nil || now == nil || now.PID != daemon.PID {
		return err // what we hold on to may be another process
	}
	if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to the daemon, process %d: %w", signal, daemon.PID, err)
	}
	return nil
}

func (n Node) awaitEnd(limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		daemon, err := n.daemon()
		if err != nil || daemon == nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the daemon, process %d, does not end", daemon.PID)
		}
	}
}
