package survive

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/cgroup"
	"example.com/pod-info-fuse/survive/internal/confine"
	"example.com/pod-info-fuse/survive/internal/mount"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// Status is the condition of the driver on this node.
type Status struct {
	Mount   MountState
	Locks   pair.Locks
	Daemon  *pair.Report // what the daemon says, its PIDs included; nil: there is none, or DaemonError
	Volumes []Volume
	// Active and Standby are what the kernel says of the daemon's processes; nil: there is none,
	// or the kernel does not confirm that the one that the daemon names is its own.
	Active, Standby *Process
	// DaemonError says why the daemon did not report, or which of its processes is not known.
	DaemonError error
	// CgroupProblem says why the daemon is still in the cgroup of the kubelet, "" when it is
	// not.
	CgroupProblem string
	FailedUpgrade *FailedUpgrade // nil: the last one succeeded
}

// Process is what the kernel says of a process of the daemon.
type Process struct {
	PID         int
	Confinement confine.Report
	Cgroup      string // see [cgroup.Of]
	Limits      cgroup.Limits
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
	there, err := n.look()
	if err != nil {
		return Status{}, err
	}
	ids, err := n.Volumes().IDs()
	if err != nil {
		return Status{}, err
	}
	living, table := there.living(), new(mount.Table) // once, for all volumes
	status := Status{Mount: there.state(), Locks: there.locks, Volumes: []Volume{}, CgroupProblem: n.cgroupProblem(), FailedUpgrade: n.failedUpgrade()}
	if there.locks.Held() {
		status.Daemon, status.DaemonError = n.report(glance)
		n.inspect(&status)
	}
	for _, id := range ids {
		v := Volume{ID: id, State: VolumeUnknown}
		v.Record, v.Problem = n.Volumes().Get(id)
		if errors.Is(v.Problem, fs.ErrNotExist) {
			continue // unmounted just now
		}
		if v.Problem == nil {
			v.State, _ = n.volumeState(v.Dir, living, table)
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

// inspect looks at the processes that the daemon names, or if it does not answer, at the one that
// has the active lock. Somebody who has taken the daemon over can name any process.
func (n Node) inspect(status *Status) {
	look := func(pid int) *Process {
		p := &Process{PID: pid}
		var hidden error
		err := n.pair().Inspect(pid, func() (err error) {
			p.Limits = cgroup.LimitsOf(pid)
			p.Cgroup, hidden = cgroup.Of(pid)
			p.Confinement, err = confine.Of(pid)
			return err
		})
		if err != nil {
			p, hidden = nil, fmt.Errorf("the daemon names a process that is not known to be its own: %w", err)
		}
		if status.DaemonError == nil {
			status.DaemonError = hidden
		}
		return p
	}
	if status.Daemon == nil {
		status.Active = look(status.Locks.Active.PID)
		return
	}
	status.Active = look(status.Daemon.Active.PID)
	if standby := status.Daemon.Standby; standby != nil {
		status.Standby = look(standby.PID)
	}
}

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
	case point.Device() == living:
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
