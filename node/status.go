package node

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/daemon"
	"example.com/pod-info-fuse/mount"
	"example.com/pod-info-fuse/volume"
)

// Status is the condition of the driver on this node.
type Status struct {
	Mount   MountState
	PIDs    daemon.PIDs
	Daemon  *daemon.Report // nil: there is none, or DaemonError
	Volumes []Volume
	// DaemonError is why the daemon did not tell about itself.
	DaemonError error
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
)

// Status looks at the node. It changes nothing, and waits for the daemon for a
// second at most.
func (n Node) Status() (Status, error) {
	state, device, err := n.mountState()
	if err != nil {
		return Status{}, err
	}
	pids, err := n.daemon()
	if err != nil {
		return Status{}, err
	}
	ids, err := n.Volumes().IDs()
	if err != nil {
		return Status{}, err
	}
	status := Status{Mount: state, PIDs: pids, Volumes: []Volume{}}
	if pids.Alive() {
		status.Daemon, status.DaemonError = daemon.Ask(n.socket())
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
	owner, err := n.ownerOf(point, state, device, table)
	if err != nil {
		return VolumeUnknown
	}
	return map[Owner]VolumeState{Nobody: VolumeNotMounted, Us: VolumeOK, UsDead: VolumeDead, Somebody: VolumeForeign}[owner]
}
