package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/survive/volume"
)

// callOutTimeout is how long a call-out waits, for locks, the daemon and containers together. It is
// longer than it takes to find that a daemon is silent, to end it, and to start another one.
const callOutTimeout = 25 * time.Second

// begin sets the deadline of a call-out, unless the one that it is a part of has one.
func (n Node) begin() Node {
	if n.deadline.IsZero() {
		n.deadline = time.Now().Add(callOutTimeout)
	}
	return n
}

// within is the limit of a wait, or what is left until the deadline.
func (n Node) within(limit time.Duration) time.Duration {
	return max(min(limit, time.Until(n.begin().deadline)), 0)
}

// How call-outs lock the run directory. The exclusive lock is held while a daemon is started, replaced or
// ended, and not while one is asked that may not answer: other pods' mounts wait for it.
const (
	shared    = unix.LOCK_SH // uses the daemon
	exclusive = unix.LOCK_EX // starts or ends the daemon
)

// lock takes the run directory's lock, making the directory if need be. It waits for a
// call-out that starts a daemon, and for others that wait for it.
func (n Node) lock(how int) (unlock func(), err error) {
	for deadline := n.begin().deadline; ; {
		if err = os.MkdirAll(n.RunDir, 0o750); err != nil {
			err = fmt.Errorf("make the run directory: %w", err)
		} else {
			unlock, err = n.lockFile(os.O_RDWR|os.O_CREATE, deadline, filelock.Flock(how))
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			return unlock, err
		}
		// Between the two steps, Stop has removed the directory. Or another driver's Stop has removed the directory
		// above, which both have.
	}
}

// LockVolume keeps other call-outs off a volume: mount and unmount look at the volume, and
// change it, in more than one step. The lock is that byte of the lock file which has the
// volume's id for its number, and belongs to the open file (fcntl(2), F_OFD_SETLK). So it
// needs no file of its own, and is independent of lock, for which an unmount must not wait.
// The error is fs.ErrNotExist where the driver has nothing on the node.
func (n Node) LockVolume(id volume.ID) (unlock func(), err error) {
	return n.lockVolumeUntil(id, n.begin().deadline)
}

// lockVolumeUntil does the same. With the zero time, it does not wait.
func (n Node) lockVolumeUntil(id volume.ID, deadline time.Time) (unlock func(), err error) {
	return n.lockBytes(int64(id), 1, deadline)
}

// LockMount keeps off others that mount by this method, for a program that must know what is mounted until it has
// mounted itself. It makes the run directory if need be. The lock is the byte that no volume has: call-outs
// and Stop do not wait for it.
func (n Node) LockMount() (unlock func(), err error) {
	for n = n.begin(); ; {
		unlock, err := n.lockBytes(0, 1, n.deadline)
		if !errors.Is(err, fs.ErrNotExist) {
			return unlock, err
		}
		made, err := n.lock(shared)
		if err != nil {
			return nil, err
		}
		made()
	}
}

// lockVolumes waits for all call-outs that have locked a volume, and keeps others off.
func (n Node) lockVolumes() (unlock func(), err error) {
	return n.lockBytes(1, 0, n.begin().deadline)
}

// lockBytes locks length bytes of the lock file, or all from the first on.
func (n Node) lockBytes(first, length int64, deadline time.Time) (unlock func(), err error) {
	bytes := unix.Flock_t{Type: unix.F_WRLCK, Start: first, Len: length}
	return n.lockFile(os.O_RDWR, deadline, func(file *os.File) error {
		return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &bytes)
	})
}

// lockFile opens the lock file, and locks it or a part of it.
func (n Node) lockFile(flags int, deadline time.Time, try func(*os.File) error) (unlock func(), err error) {
	for {
		file, err := os.OpenFile(n.path("lock"), flags, 0o600)
		if err != nil {
			return nil, err
		}
		err = filelock.Within(deadline, file, try)
		if err == nil && n.isLockFile(file) {
			return func() { file.Close() }, nil
		}
		file.Close()
		if err != nil {
			return nil, err
		}
		// Stop removed the file while we waited: it locks nothing.
	}
}

func (n Node) isLockFile(file *os.File) bool {
	held, heldErr := file.Stat()
	there, err := os.Stat(n.path("lock"))
	return err == nil && heldErr == nil && os.SameFile(held, there)
}
