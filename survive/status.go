package survive

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/mount"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// Status is the condition of the driver on this node.
type Status struct {
	Mount   MountState
	Locks   pair.Locks
	Daemon  *pair.Report // nil: there is none, or DaemonError
	Volumes []Volume
	// DaemonError says why the daemon did not report.
	DaemonError error
	// CgroupProblem says why the daemon is still in the cgroup of the kubelet, "" when it is
	// not.
	CgroupProblem string
	FailedUpgrade *FailedUpgrade // nil: the last one succeeded
}

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
)

// Status looks at the node. It waits for the daemon for two seconds at most, and changes
// nothing but that syslog hears the daemon again; see report.
func (n Node) Status() (Status, error) {
	state, device, err := n.mountState()
	if err != nil {
		return Status{}, err
	}
	locks, err := n.daemon()
	if err != nil {
		return Status{}, err
	}
	ids, err := n.Volumes().IDs()
	if err != nil {
		return Status{}, err
	}
	status := Status{Mount: state, Locks: locks, Volumes: []Volume{}, CgroupProblem: n.cgroupProblem(), FailedUpgrade: n.failedUpgrade()}
	if locks.Held() {
		status.Daemon, status.DaemonError = n.report(glance)
	}
	table := new(mount.Table) // read once, for all volumes
	for _, id := range ids {
		record, err := n.Volumes().Get(id)
		if errors.Is(err, os.ErrNotExist) {
			continue // unmounted just now
		}
		v := Volume{ID: id, Record: record, State: VolumeUnknown, Problem: err}
		if err == nil {
			v.State = n.volumeState(record, state, device, table)
		}
		status.Volumes = append(status.Volumes, v)
	}
	lost, err := n.unrecorded(table)
	if err != nil {
		return Status{}, err
	}
	status.Volumes = append(status.Volumes, lost...)
	return status, nil
}

func (n Node) volumeState(record volume.Record, state MountState, device uint64, table *mount.Table) VolumeState {
	point, err := volume.OpenDir(record.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, mount.ErrLink):
		return VolumeNotMounted // no volume can be there
	case err != nil:
		return VolumeUnknown
	}
	defer point.Close()
	mounted, err := n.mountedOn(point, state, device, table)
	if err != nil {
		return VolumeUnknown
	}
	return mounted
}

// mountedOn tells what is mounted on a directory, given the node mount's state and device.
func (n Node) mountedOn(point *mount.Point, state MountState, device uint64, table *mount.Table) (VolumeState, error) {
	switch mounted, err := point.Mounted(); {
	case err != nil:
		return VolumeUnknown, err
	case !mounted:
		return VolumeNotMounted, nil
	case state == MountOK && point.Device() == device:
		return VolumeOK, nil
	}
	// Not of the connection that is served. mountinfo tells whether it is of one before.
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

// lookOn tells the same, with the node mount as it is now. It asks for that only if something
// is mounted, which is rare for a volume that is to be mounted.
func (n Node) lookOn(point *mount.Point) (VolumeState, error) {
	if mounted, err := point.Mounted(); err != nil || !mounted {
		return VolumeNotMounted, err
	}
	state, device, err := n.mountState()
	if err != nil {
		return VolumeUnknown, err
	}
	return n.mountedOn(point, state, device, new(mount.Table))
}
