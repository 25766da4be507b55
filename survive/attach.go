package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/internal/pair"
)

// A call-out may be in another mount namespace than the one that started the daemon: a
// kubelet has one of its own, or a new one after a restart of its container, or a person
// calls the driver by hand. There, the node mount is absent although its daemon is well. The
// daemon is still in the namespace in which it was started, as it cannot leave it.

// elsewhere tells whether the node mount is absent here only. It may have to ask, until a time.
func (n healing) elsewhere(locks pair.Locks, until time.Time) bool {
	switch locks.State() {
	case pair.Nobody, pair.Dead:
		return false
	case pair.Unseen: // of another PID namespace, or somebody who keeps a lock
		_, err := n.pair().Ask(time.Until(until))
		return err == nil || isRefusal(err)
	}
	return true
}

// isRefusal tells whether the daemon lives and has answered, but not what it was asked for.
func isRefusal(err error) bool { return errors.As(err, new(pair.Refusal)) }

// attachFromElsewhere attaches the daemon's mount, which is absent here, if the daemon serves in
// another mount namespace. One whose connection was aborted just now ends meanwhile.
func (n healing) attachFromElsewhere(there look, until time.Time) (look, error) {
	for begun := time.Now(); there.device == 0 && n.elsewhere(there.locks, until); time.Sleep(2 * time.Millisecond) {
		before := there.locks
		attachErr := n.attachAlone(before)
		var err error
		if there, err = n.look(); err != nil || attachErr == nil {
			return there, err
		}
		ends := there.locks != before || errors.Is(attachErr, fs.ErrNotExist)
		if !ends || time.Since(begun) > endTimeout {
			return there, attachErr
		}
	}
	return there, nil
}

// attachAlone attaches it, unless another call-out was faster.
func (n healing) attachAlone(locks pair.Locks) error {
	unlock, err := n.lock(exclusive)
	if err != nil {
		return err
	}
	defer unlock()
	if there, err := n.look(); err != nil || there.device != 0 {
		return err
	}
	return n.attach(locks)
}

// attach mounts the daemon's file system here as well. It does nothing where the node mount
// is absent from the daemon's own namespace, too.
func (n healing) attach(locks pair.Locks) error {
	holder := locks.Active
	if holder.State() < locks.State() {
		holder = locks.Standby
	}
	if holder.State() == pair.Unseen {
		return fmt.Errorf("the daemon serves, but %s is not mounted in this mount namespace, and the daemon is in another "+
			"PID namespace, so that the mount cannot be fetched from there; call the driver in the namespaces in "+
			"which the daemon was started, or end it there with %s stop", n.fsPath(), n.Program)
	}
	namespace, err := mount.Of(holder.PID)
	if err != nil {
		return fmt.Errorf("find the daemon's mount namespace: %w", err)
	}
	tree, err := n.fetch(namespace)
	if err != nil {
		return fmt.Errorf("the daemon serves in another mount namespace, that of process %d, and its mount cannot be fetched: %w; "+
			"call the driver there", holder.PID, err)
	}
	if tree == nil {
		return nil
	}
	defer tree.Close()
	here, err := mount.Open(n.fsPath())
	if err != nil {
		return err
	}
	defer here.Close()
	if err := tree.Attach(here); err != nil {
		return err
	}
	n.Log("its mount is attached in this mount namespace, too; the daemon is in that of process %d", holder.PID)
	return nil
}

// fetch copies the node mount from another namespace; nil: it is not there, or the
// namespace is this one. The namespace may not be the daemon's (pair.Holder). So it copies
// only the root of a FUSE file system of ours, on a directory that only root can mount on:
// the one of our own run directory.
func (n healing) fetch(namespace mount.Namespace) (*mount.Tree, error) {
	lock, err := statxOf(n.path("lock"))
	if err != nil {
		return nil, err
	}
	// No server may be asked on the way there.
	if _, err := namespace.LocalMount(n.RunDir); err != nil {
		return nil, err
	}
	mounted, err := namespace.Mounts(n.fsType(), n.Name.String())
	if err != nil {
		return nil, err
	}
	ours := map[uint64]bool{}
	for _, info := range mounted {
		if info.Mountpoint == n.fsPath() && info.Root == "/" {
			ours[deviceOf(info)] = true
		}
	}
	if len(ours) == 0 {
		return nil, nil
	}
	var tree *mount.Tree
	err = namespace.Do(func() error {
		there, err := mount.OpenBelow("/", strings.TrimPrefix(n.fsPath(), "/"))
		if errors.Is(err, unix.EIO) {
			return nil // its root is bad, and nobody can use it: another daemon is started
		} else if err != nil {
			return err
		}
		defer there.Close()
		stat, err := statxOf(n.path("lock"))
		if err != nil {
			return err
		}
		if stat.Ino != lock.Ino || stat.Dev_major != lock.Dev_major || stat.Dev_minor != lock.Dev_minor {
			return fmt.Errorf("%s is another directory there", n.RunDir)
		}
		if !there.Mounted() || !ours[there.Device()] {
			return fmt.Errorf("%s is not the daemon's mount there", n.fsPath())
		}
		tree, err = there.Clone()
		return err
	})
	return tree, err
}

// statxOf looks at a path. On the way, file systems may be asked.
func statxOf(path string) (stat unix.Statx_t, err error) {
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &stat)
	return stat, err
}
