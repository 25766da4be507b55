package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"example.com/pod-info-fuse/cgroup"
)

// Stop ends the daemon and removes the node mount and the run directory. When
// volumes are mounted it does not, and returns them; unless release is given,
// which is called to unmount each of them first.
func (n Node) Stop(release func(dir string) error) (inUse []Volume, err error) {
	if !exists(n.RunDir) {
		return nil, nil
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
	if len(inUse) > 0 && release == nil {
		return inUse, nil
	}
	var failed error
	for _, v := range inUse {
		// Where a record cannot be read, nobody knows where the volume was; and
		// what others have mounted on top of it is theirs.
		if v.Problem == nil && v.State != VolumeForeign {
			failed = errors.Join(failed, release(v.Dir))
		}
	}
	if failed != nil {
		return nil, failed
	}
	if err := n.clear(); err != nil {
		return nil, err
	}
	if err := cgroup.Remove(n.Driver.String()); err != nil {
		n.Log("%v", err) // an empty cgroup does no harm
	}
	return nil, n.removeRunDir()
}

// removeRunDir removes what the driver made, the lock last: from then on
// another call-out may build anew.
func (n Node) removeRunDir() error {
	if err := os.RemoveAll(n.Volumes().Dir); err != nil {
		return err
	}
	// What was being written when a call-out was killed; see volume.WriteFile.
	names, err := filepath.Glob(n.path(".new-*"))
	if err != nil {
		return err
	}
	for _, name := range []string{"fs", "connection.json", "control", "callouts", "facts", "unhealed", "daemon.lock", "lock"} {
		names = append(names, n.path(name))
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	// These fail when somebody builds anew, or another driver is there.
	_ = os.Remove(n.RunDir)
	_ = os.Remove(filepath.Dir(n.RunDir))
	return nil
}
