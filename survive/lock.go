package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
)

type lockMode int

const (
	// shared: uses the daemon.
	shared lockMode = unix.LOCK_SH
	// exclusive: starts or ends the daemon.
	exclusive lockMode = unix.LOCK_EX
)

// lock takes the run directory's lock, making the directory if need be. It waits for a
// call-out that starts a daemon, and for others that wait for it.
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
		err = within(deadline, file, flock(file, int(mode)))
		if err != nil {
			file.Close()
			return nil, err
		}
		if n.isLockFile(file) {
			return func() { file.Close() }, nil
		}
		file.Close() // Stop removed the file while we waited: it locks nothing
	}
}

// lockVolume keeps other call-outs off a volume: mount and unmount look at the volume, and
// change it, in more than one step. The lock is that byte of the lock file which has the
// volume's id for its number, and belongs to the open file (fcntl(2), F_OFD_SETLK). So it
// needs no file of its own, and is independent of lock, for which an unmount must not wait.
// The error is fs.ErrNotExist where the driver has nothing on the node.
func (n Node) lockVolume(id volume.ID) (unlock func(), err error) { return n.lockBytes(int64(id), 1) }

// lockVolumes waits for all call-outs that have locked a volume, and keeps others off.
func (n Node) lockVolumes() (unlock func(), err error) { return n.lockBytes(0, 0) }

// lockBytes locks length bytes of the lock file, or all from the first on.
func (n Node) lockBytes(first, length int64) (unlock func(), err error) {
	deadline := time.Now().Add(2 * patience)
	for {
		file, err := os.OpenFile(n.path("lock"), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		bytes := unix.Flock_t{Type: unix.F_WRLCK, Start: first, Len: length}
		err = within(deadline, file, func() error { return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &bytes) })
		if err != nil {
			file.Close()
			return nil, err
		}
		if n.isLockFile(file) {
			return func() { file.Close() }, nil
		}
		file.Close() // as in lock
	}
}

// errLocked says that another process has a lock.
var errLocked = errors.New("another call-out holds it for too long")

// flock returns a function that tries to lock a file with flock(2).
func flock(file *os.File, how int) (try func() error) {
	return func() error { return unix.Flock(int(file.Fd()), how|unix.LOCK_NB) }
}

// within tries to lock a file until a deadline. It does not wait in the kernel: nothing
// would end that.
func within(deadline time.Time, file *os.File, try func() error) error {
	for {
		switch err := try(); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN):
			return &fs.PathError{Op: "lock", Path: file.Name(), Err: err}
		case time.Now().After(deadline):
			return fmt.Errorf("lock %s: %w; see who with fuser", file.Name(), errLocked)
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
