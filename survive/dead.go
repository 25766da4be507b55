package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
)

// Anybody can mount a FUSE file system in a user namespace of his own, and give it our type
// and source. So the device number tells which file systems are ours. The kernel uses numbers
// again (fs/super.c, get_anon_bdev). Therefore a file system whose daemon has died stays
// mounted, on RUN/dead/<number>, until nothing of it is left anywhere else. That mount both
// records the number and keeps it from being another's; only root can make one there.
//
// It is made before the node mount goes, and so before another daemon serves: if a call-out
// is killed while it heals, the next one goes on.

// dead are the file systems of ours whose daemon has died, by device number.
type dead map[uint64]*mount.Point

func (d dead) close() {
	for _, point := range d {
		point.Close()
	}
}

func (n daemon) deadPath() string { return n.path("dead") }

// dead opens the file systems that are kept. While they are open, no others get their
// numbers.
func (n daemon) dead() (dead, error) {
	entries, err := os.ReadDir(n.deadPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // as nearly always
	} else if err != nil {
		return nil, err
	}
	// The node mount's own file system is not dead, whatever process has the daemon's locks.
	// If it is kept already, a call-out is about to remove the node mount, or was killed
	// before.
	there, err := n.look()
	if err != nil {
		return nil, err
	}
	all := dead{}
	for _, entry := range entries {
		point, err := mount.Open(filepath.Join(n.deadPath(), entry.Name()))
		if err != nil {
			continue // another healing has ended
		}
		switch {
		case !point.Mounted(): // its maker was killed, or is still at it
			n.forget(point)
		case point.Device() != there.device:
			all[point.Device()] = point
			continue
		}
		point.Close()
	}
	return all, nil
}

// keep keeps the file system that the point is on, and ends its connection: a process that
// still serves it, with the daemon's locks, must not go on.
func (n daemon) keep(point *mount.Point) error {
	return errors.Join(n.bindDead(point), point.Abort())
}

func (n daemon) bindDead(point *mount.Point) error {
	path := filepath.Join(n.deadPath(), strconv.FormatUint(point.Device(), 10))
	for _, directory := range []string{n.deadPath(), path} {
		if err := os.Mkdir(directory, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("keep what is dead: %w", err)
		}
	}
	at, err := mount.Open(path)
	if err != nil {
		return err
	}
	defer at.Close()
	if at.Mounted() {
		return nil
	}
	return at.Bind(point)
}

// retire keeps the node mount's file system, and removes the node mount. If it cannot keep
// it, the mount stays: without it, the number would be forgotten.
func (n daemon) retire(root *mount.Point) error {
	n.logLoss()
	err := n.keep(root)
	if err == nil {
		err = root.Detach()
	}
	if errors.Is(err, unix.EINVAL) { // another call-out was faster
		return nil
	}
	return err
}

// forget lets go of a file system of which nothing is left. Another healing may do so, too. While
// the point is open, no other file system has its number, and so its path.
func (n daemon) forget(point *mount.Point) {
	_ = mount.Remove(point.Path)
	_ = os.Remove(n.deadPath()) // when it was the last one
}

// logLoss logs that both processes have died, or do not answer.
func (n daemon) logLoss() {
	n.Log("the daemon was lost: no process of it serves any more, and readers get errors until the volumes are healed")
}
