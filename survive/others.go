package survive

import "slices"

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

// removeAll removes all mounts of the driver from the directory.
func (n Node) removeAll(dir string) error {
	if n.OtherVolumes != nil {
		if err := n.OtherVolumes(n).Unmount(dir); err != nil {
			return err
		}
	}
	return n.detachAll(dir)
}

// others lists the driver's other volumes.
func (n Node) others() ([]Volume, error) {
	if n.OtherVolumes == nil {
		return nil, nil
	}
	return n.OtherVolumes(n).Volumes()
}

// lostOthers lists those of them that are mounted, but have no record.
func (n Node) lostOthers() ([]Volume, error) {
	all, err := n.others()
	return slices.DeleteFunc(all, func(v Volume) bool { return v.State != VolumeUnrecorded }), err
}
