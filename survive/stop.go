package survive

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"example.com/pod-info-fuse/survive/internal/cgroup"
)

// Stop ends the daemon and removes the node mount and the run directory. When
// volumes are mounted it does not, and returns them; with force it unmounts each of them
// first, and the pods that use them keep a dead mount until they end.
func (n Node) Stop(force bool) (inUse []Volume, err error) {
	if !exists(n.RunDir) {
		if count, err := n.Unrecorded(); err != nil || count == 0 {
			return nil, err
		}
	}
	unlock, err := n.lock(exclusive)
	if err != nil {
		return nil, err
	}
	defer unlock()
	status, err := n.Status()
	if err != nil {
		return nil, err
	}
	inUse = slices.DeleteFunc(status.Volumes, func(v Volume) bool { return v.State == VolumeNotMounted })
	if len(inUse) > 0 && !force {
		return inUse, nil
	}
	var failed error
	for _, v := range inUse {
		// If a record cannot be read, the volume's directory is not known; and mounts of
		// others on top of it are theirs.
		if v.Problem == nil && v.State != VolumeForeign {
			failed = errors.Join(failed, n.unmountVolume(v.Dir))
		}
	}
	if failed != nil {
		return nil, failed
	}
	if err := n.clear(); err != nil {
		return nil, err
	}
	// An unmount may be about to remove its record, and a mount may have written that record
	// anew.
	unlockVolumes, err := n.lockVolumes()
	if err != nil {
		return nil, err
	}
	defer unlockVolumes()
	if err := n.forgetAll(); err != nil {
		return nil, err
	}
	if err := cgroup.Remove(n.cgroupName()); err != nil {
		n.Log("%v", err) // an empty cgroup does no harm
	}
	return nil, n.removeRunDir()
}

// removeRunDir removes the driver's files, the lock last: from then on another call-out may
// build anew.
func (n Node) removeRunDir() error {
	if err := os.RemoveAll(n.Volumes().Dir); err != nil {
		return err
	}
	// Files that killed call-outs were writing, and notes that were not kept; see
	// volume.WriteFile and noteStarted.
	names, err := filepath.Glob(n.path(".new-*"))
	if err != nil {
		return err
	}
	for _, name := range []string{"fs", "connection.json", "control", "callouts", "input", "cgroup", "version", "cgroup-problem", "upgrade-failed", "daemon.lock", "lock"} {
		names = append(names, n.path(name))
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	// These fail when another call-out builds anew, or another driver is there.
	_ = os.Remove(n.RunDir)
	_ = os.Remove(filepath.Dir(n.RunDir))
	return nil
}
