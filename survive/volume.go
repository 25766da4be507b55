package survive

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/volume"
)

// Volume is a recorded volume and its condition.
type Volume struct {
	volume.Record
	State VolumeState
	// Problem says why the record could not be read; all but its ID is unknown then.
	Problem error
	ID      volume.ID
}

// VolumeState is the condition of a volume on its mount directory.
type VolumeState string

const (
	VolumeOK         VolumeState = "ok"         // mounted and served
	VolumeDead       VolumeState = "dead"       // mounted, but by a daemon that is gone
	VolumeNotMounted VolumeState = "notMounted" // recorded only
	VolumeForeign    VolumeState = "foreign"    // somebody else's mount is in its place
	VolumeUnknown    VolumeState = "unknown"    // the record or the mount cannot be read
	VolumeUnrecorded VolumeState = "unrecorded" // mounted, but its record is lost
	VolumeLingering  VolumeState = "lingering"  // unmounted, and its pod is there: a container may have it
)

func (n Node) volumeState(dir string, living uint64, table *mount.Table) (VolumeState, error) {
	point, err := openDir(dir)
	if err != nil {
		return VolumeUnknown, err
	} else if point == nil {
		return VolumeNotMounted, nil
	}
	defer point.Close()
	return n.mountedOn(point, living, table)
}

// openDir opens the directory of a volume; nil: no volume of ours can be there.
func openDir(dir string) (*mount.Point, error) {
	point, err := volume.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, mount.ErrLink) {
		return nil, nil
	}
	return point, err
}

// mountedOn tells what is mounted on a directory. The file system with the number living is
// served.
func (n Node) mountedOn(point *mount.Point, living uint64, table *mount.Table) (VolumeState, error) {
	switch mounted, err := point.Mounted(); {
	case err != nil:
		return VolumeUnknown, err
	case !mounted:
		return VolumeNotMounted, nil
	case point.Device() == living && !point.Bad():
		return VolumeOK, nil
	}
	// Of no use. mountinfo tells whether it is ours.
	info, err := table.Info(point)
	switch {
	case err != nil:
		return VolumeUnknown, err
	case info == nil: // unmounted just now
		return VolumeNotMounted, nil
	case info.FSType == n.fsType() && info.Source == n.Name.String():
		return VolumeDead, nil
	}
	return VolumeForeign, nil
}

// lookOn tells the same, with the node mount as it is now. It looks at that only if something
// is mounted, which is rare for a volume that is to be mounted.
func (n Node) lookOn(point *mount.Point) (VolumeState, error) {
	if mounted, err := point.Mounted(); err != nil || !mounted {
		return VolumeNotMounted, err
	}
	there, err := n.look()
	if err != nil {
		return VolumeUnknown, err
	}
	return n.mountedOn(point, there.living(), new(mount.Table))
}

// others lists the driver's other volumes.
func (n Node) others() ([]Volume, error) {
	if n.OtherVolumes == nil {
		return nil, nil
	}
	return n.OtherVolumes(n).Volumes()
}

// OtherVolumes are the node's volumes that the node mount has no part in, of a driver whose call-outs
// mount volumes of another kind, too. They are in use like all others: status shows them, and stop
// refuses while they are mounted.
type OtherVolumes interface {
	// Volumes lists those that are recorded, with their states, and those that are mounted, but have
	// no record: [VolumeUnrecorded]; see [Node.WithoutRecord].
	Volumes() ([]Volume, error)
	// Unmount removes one from a directory, with its record; a directory that has none is a
	// success. The caller has locked the volume, unless the driver has nothing on the node.
	Unmount(dir string) error
}
