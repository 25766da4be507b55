package node

import "example.com/pod-info-fuse/mount"

// Owner says whose the mount on a directory is.
type Owner int

const (
	Nobody   Owner = iota // nothing is mounted
	Us                    // a volume of this driver
	UsDead                // one whose FUSE connection has ended
	Somebody              // anything else
)

// OwnerOf tells whose the mount on a directory is.
func (n Node) OwnerOf(point *mount.Point) (Owner, error) {
	state, device, err := n.mountState()
	if err != nil {
		return Nobody, err
	}
	return n.ownerOf(point, state, device, new(mount.Table))
}

func (n Node) ownerOf(point *mount.Point, state MountState, device uint64, table *mount.Table) (Owner, error) {
	mounted, err := point.Mounted()
	if err != nil || !mounted {
		return Nobody, err
	}
	if state == MountOK && point.Device() == device {
		return Us, nil
	}
	// Not of the connection that is served. Of one before, if it says so.
	info, err := table.Info(point)
	if err != nil {
		return Nobody, err
	}
	if info == nil {
		return Nobody, nil // unmounted just now
	}
	if info.FSType == mount.Type && info.Source == n.Driver.String() {
		return UsDead, nil
	}
	return Somebody, nil
}
