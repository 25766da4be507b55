package driver

import "example.com/pod-info-fuse/node"

// Stop removes the driver's presence from the node. Volumes that are mounted
// prevent it and are returned; with force they are unmounted first, and the pods
// that use them keep a dead mount until they end.
func (d Driver) Stop(force bool) (inUse []node.Volume, err error) {
	if force {
		return d.Node.Stop(d.Unmount)
	}
	return d.Node.Stop(nil)
}
