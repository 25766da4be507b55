package driver

import (
	"errors"
	"fmt"
	"io/fs"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/mount"
	"example.com/pod-info-fuse/node"
	"example.com/pod-info-fuse/volume"
)

// Mount makes the volume appear in dir. When it fails, it leaves neither a
// mount nor a record.
func (d Driver) Mount(dir string, options flex.Options) error {
	record, err := d.check(dir, options)
	if err != nil {
		return err
	}
	point, err := volume.OpenDir(record.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory %q does not exist; the kubelet makes it before it calls mount", record.Dir)
	} else if err != nil {
		return err
	}
	defer point.Close()
	release, err := d.Node.Use()
	if err != nil {
		return err
	}
	defer release()
	return d.mount(record, point)
}

func (d Driver) check(dir string, options flex.Options) (volume.Record, error) {
	if d.ConfigError != nil {
		return volume.Record{}, d.ConfigError
	}
	dir, err := cleanPath(dir)
	if err != nil {
		return volume.Record{}, err
	}
	return newRecord(dir, options, d.Facts)
}

// mount decides by what is on the directory already.
func (d Driver) mount(record volume.Record, point *mount.Point) error {
	owner, err := d.Node.OwnerOf(point)
	if err != nil {
		return err
	}
	switch owner {
	case node.Us:
		if adopted, err := d.adopt(record); err != nil || adopted {
			return err
		}
		fallthrough // nobody knows whose it is
	case node.UsDead:
		if err := d.Unmount(record.Dir); err != nil {
			return err
		}
		fresh, err := volume.OpenDir(record.Dir)
		if err != nil {
			return err
		}
		defer fresh.Close()
		return d.bind(record, fresh)
	case node.Somebody:
		return fmt.Errorf("directory %q is a mount point of something else; unmount that first", record.Dir)
	}
	return d.bind(record, point)
}

// adopt accepts a volume that is mounted already, as it is. It reports false
// when there is no record that says which one that is.
func (d Driver) adopt(record volume.Record) (bool, error) {
	there, err := d.Node.Volumes().Get(record.ID())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if there.PodUID != record.PodUID {
		return false, fmt.Errorf("directory %q is mounted for another pod, %s; unmount it first", record.Dir, there.PodUID)
	}
	return true, nil
}

// bind writes the record, from which the daemon knows the volume, and binds
// the volume's directory to the kubelet's.
func (d Driver) bind(record volume.Record, point *mount.Point) error {
	volumes := d.Node.Volumes()
	if there, err := volumes.Get(record.ID()); err == nil && there.Dir != record.Dir {
		return fmt.Errorf("directories %q and %q have the same id; rename the volume", record.Dir, there.Dir)
	}
	if err := volumes.Put(record); err != nil {
		return fmt.Errorf("record the volume: %w", err)
	}
	err := within(patience, func() error { return point.Bind(d.Node.VolumePath(record.ID())) })
	if errors.Is(err, errSilent) {
		// Should the daemon answer after all, the volume will be mounted, and must
		// be known: to the next mount, which accepts it, or unmount.
		return err
	} else if err != nil {
		return errors.Join(err, volumes.Delete(record.ID()))
	}
	return nil
}
