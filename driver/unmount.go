package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"example.com/pod-info-fuse/mount"
	"example.com/pod-info-fuse/node"
	"example.com/pod-info-fuse/volume"
)

// Unmount removes the volume from dir: all its mounts, dead or alive or in
// use, and its record. A directory that has no volume is a success, because the
// kubelet repeats what it does not know the end of. It never asks the daemon,
// and takes no lock that a call-out might hold that waits for the daemon.
// Healing other volumes is left to init and mount for that reason.
func (d Driver) Unmount(dir string) error {
	dir, err := cleanPath(dir)
	if err != nil {
		return err
	}
	const tries = 100 // more than anybody stacks
	for range tries {
		more, err := d.detach(dir)
		if err != nil {
			return err
		}
		if !more {
			return d.Node.Volumes().Delete(volume.NewID(dir))
		}
	}
	return fmt.Errorf("directory %q is still mounted after %d attempts to unmount it", dir, tries)
}

// detach removes the topmost mount from the directory and reports whether
// there was one.
func (d Driver) detach(dir string) (bool, error) {
	point, err := volume.OpenDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, mount.ErrLink):
		return false, nil // no volume of ours can be there
	case err != nil:
		return false, err
	}
	defer point.Close()
	owner, err := d.Node.OwnerOf(point)
	switch {
	case err != nil || owner == node.Nobody:
		return false, err
	case owner == node.Somebody:
		return false, fmt.Errorf("directory %q is a mount point of something else; it is left as it is", dir)
	}
	if err := point.Detach(); !errors.Is(err, syscall.EINVAL) {
		return true, err
	}
	return true, nil // somebody else was faster; look again
}
