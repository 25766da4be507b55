package survive

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/mount"
	"example.com/pod-info-fuse/survive/volume"
)

// mountVolume mounts the volume, with the daemon that is there or a new one.
func (n Node) mountVolume(record volume.Record) error {
	point, err := volume.OpenDir(record.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory %q does not exist; the kubelet makes it before it calls mount", record.Dir)
	} else if err != nil {
		return err
	}
	point.Close()
	release, err := n.use()
	if err != nil {
		return err
	}
	defer release()
	unlock, err := n.lockVolume(record.ID())
	if err != nil {
		return err
	}
	defer unlock()
	return n.mountOn(record)
}

// mountOn mounts according to what the directory has on it already.
func (n Node) mountOn(record volume.Record) error {
	point, err := volume.OpenDir(record.Dir)
	if err != nil {
		return err
	}
	defer point.Close()
	there, err := n.lookOn(point)
	if err != nil {
		return err
	}
	switch there {
	case VolumeOK:
		recorded, err := n.Volumes().Get(record.ID())
		if err == nil && recorded.PodUID != record.PodUID {
			err = fmt.Errorf("directory %q is mounted for another pod, %s; unmount it first", record.Dir, recorded.PodUID)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err // nil: it is accepted as it is
		}
		fallthrough // no record says whose it is
	case VolumeDead:
		if err := n.unmountLocked(record.Dir); err != nil {
			return err
		}
		return n.mountOn(record)
	case VolumeForeign:
		return fmt.Errorf("directory %q is a mount point of something else; unmount that first", record.Dir)
	}
	return n.bindNew(record, point)
}

// bindNew writes the record, from which the daemon knows the volume, and binds
// the volume's directory to the kubelet's.
func (n Node) bindNew(record volume.Record, point *mount.Point) error {
	volumes := n.Volumes()
	if there, err := volumes.Get(record.ID()); err == nil && there.Dir != record.Dir {
		return fmt.Errorf("directories %q and %q have the same id; rename the volume", record.Dir, there.Dir)
	}
	if err := volumes.Put(record); err != nil {
		return fmt.Errorf("record the volume: %w", err)
	}
	if err := n.bind(record, point); err != nil {
		if serving := n.versionNote(); errors.Is(err, unix.EIO) && serving != n.Version {
			err = fmt.Errorf("version %s serves and cannot read what version %s records of the volume; "+
				"run %s upgrade, which says why version %[2]s does not serve: %[4]w", serving, n.Version, n.Program, err)
		}
		return errors.Join(err, volumes.Delete(record.ID()))
	}
	return nil
}

// unmountVolume implements CallOuts.Unmount.
func (n Node) unmountVolume(dir string) error {
	unlock, err := n.lockVolume(volume.NewID(dir))
	if errors.Is(err, fs.ErrNotExist) {
		// Without a run directory there may be mounts, but no records.
		if err := n.detachAll(dir); err != nil {
			return err
		}
		unlock, err = n.lockVolume(volume.NewID(dir))
		if errors.Is(err, fs.ErrNotExist) { // and no mount has begun meanwhile
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer unlock()
	return n.unmountLocked(dir)
}

// unmountLocked is unmountVolume for a caller that has locked the volume.
func (n Node) unmountLocked(dir string) error {
	if err := n.detachAll(dir); err != nil {
		return err
	}
	return n.Volumes().Delete(volume.NewID(dir))
}

// detachAll removes all mounts of ours from the directory.
func (n Node) detachAll(dir string) error {
	const tries = 100 // more than are ever stacked
	for range tries {
		if more, err := n.detach(dir); err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("directory %q is still mounted after %d attempts to unmount it", dir, tries)
}

// detach removes the topmost mount from the directory and reports whether
// there was one.
func (n Node) detach(dir string) (bool, error) {
	point, err := openDir(dir)
	if err != nil || point == nil {
		return false, err
	}
	defer point.Close()
	there, err := n.lookOn(point)
	switch {
	case err != nil || there == VolumeNotMounted:
		return false, err
	case there == VolumeForeign:
		return false, fmt.Errorf("directory %q is a mount point of something else; it is left as it is", dir)
	}
	if err := point.Detach(); !errors.Is(err, unix.EINVAL) {
		return true, err
	}
	return true, nil // another process was faster; look again
}
