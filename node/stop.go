package node

import (
	"os"
	"path/filepath"
	"slices"
)

// Stop ends the daemon and removes the node mount and the run directory, when
// no volume is mounted. Otherwise inUse is what it found, and nothing has
// changed.
func (n Node) Stop() (inUse []Volume, err error) {
	if _, err := os.Stat(n.RunDir); os.IsNotExist(err) {
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
	if len(inUse) > 0 {
		return inUse, nil
	}
	if err := n.clear(); err != nil {
		return nil, err
	}
	return nil, n.removeRunDir()
}

// removeRunDir removes what the driver made, the lock last: from then on
// another call-out may build anew.
func (n Node) removeRunDir() error {
	if err := os.RemoveAll(n.Volumes().Dir); err != nil {
		return err
	}
	for _, name := range []string{"fs", "connection.json", "control", "daemon.lock", "lock"} {
		if err := os.Remove(n.path(name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	// These fail when somebody builds anew, or another driver is there.
	_ = os.Remove(n.RunDir)
	_ = os.Remove(filepath.Dir(n.RunDir))
	return nil
}
