package driver

import (
	"errors"

	"example.com/pod-info-fuse/node"
)

// Stop removes the driver's presence from the node. Volumes that are mounted
// prevent it and are returned; with force they are unmounted first, and the pods
// that use them keep a dead mount until they end.
func (d Driver) Stop(force bool) (inUse []node.Volume, err error) {
	inUse, err = d.Node.Stop()
	if err != nil || len(inUse) == 0 || !force {
		return inUse, err
	}
	for _, v := range inUse {
		if v.Problem != nil { // nobody knows any more where it was mounted
			err = errors.Join(err, d.Node.Volumes().Delete(v.ID))
		} else {
			err = errors.Join(err, d.Unmount(v.Dir))
		}
	}
	if err != nil {
		return nil, err
	}
	return d.Node.Stop()
}
