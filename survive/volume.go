package survive

import (
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

// OtherVolumes are the node's volumes that the node mount has no part in, of a driver whose
// call-outs mount volumes of another kind, too. They are in use like all others: status shows them,
// and stop refuses while they are mounted.
type OtherVolumes interface {
	// Volumes lists those that are recorded, with their states, and those that are mounted, but
	// have no record: [VolumeUnrecorded].
	Volumes() ([]Volume, error)
	// Unmount removes one from a directory, with its record; a directory that has none is a
	// success. The caller has locked the volume, unless the driver has nothing on the node.
	Unmount(dir string) error
}
