package survive

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/pod-info-fuse/survive/internal/cgroup"
)

// Stop ends the daemon and removes the node mount and the run directory. When
// volumes are mounted it does not, and returns them; with force it unmounts each of them
// first, and the pods that use them keep a dead mount until they end.
func (n Node) Stop(force bool) (inUse []Volume, err error) {
	c := n.begin()
	c.deadline = time.Time{} // each wait has a time of its own: there may be many volumes
	if !exists(c.RunDir) {
		if count, err := c.Unrecorded(); err != nil || count == 0 {
			return nil, err
		}
	}
	unlock, err := c.lock(exclusive)
	if err != nil {
		return nil, err
	}
	defer unlock()
	status, err := c.Status()
	if err != nil {
		return nil, err
	}
	if status.Mount == MountAbsent && !force { // the volumes are where it serves
		if err := c.refuseElsewhere(status.locks, time.Now().Add(reportTimeout)); err != nil {
			return nil, err
		}
	}
	inUse = slices.DeleteFunc(status.Volumes, func(v Volume) bool { return v.State == VolumeNotMounted || v.State == VolumeLingering })
	if len(inUse) > 0 && !force {
		return inUse, nil
	}
	var failed error
	for _, v := range inUse {
		// If a record cannot be read, the volume's directory is not known; and mounts of
		// others on top of it are theirs.
		if v.Problem == nil && v.State != VolumeForeign {
			failed = errors.Join(failed, c.unmountVolume(v.Dir, false))
		}
	}
	if failed != nil {
		return nil, failed
	}
	if err := c.clear(); err != nil {
		return nil, err
	}
	if err := c.stopCompanion(); err != nil {
		return nil, fmt.Errorf("stop the daemon's companion: %w", err)
	}
	// An unmount may be about to remove its record, and a mount may have written that record
	// anew.
	unlockVolumes, err := c.lockVolumes()
	if err != nil {
		return nil, err
	}
	defer unlockVolumes()
	all, err := c.dead()
	if err != nil {
		return nil, err
	}
	defer all.close()
	for _, point := range all {
		c.forget(point) // no volume is left
	}
	if err := cgroup.Remove(c.cgroupName()); err != nil {
		c.Log("%v", err) // an empty cgroup does no harm
	}
	return nil, c.removeRunDir()
}
