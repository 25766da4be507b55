package csi

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/pod-info-fuse/survive/volume"
)

// node is the service that mounts volumes. Requests for one target at the same time do no harm: the
// call-outs wait for each other, as they do for a kubelet that executes them.
type node struct {
	csi.UnimplementedNodeServer
	*Plugin
	// mounts and unmounts have room for the call-outs that may run at a time. Each has some MiB,
	// and a kubelet may ask for a hundred at once, while the plugin's memory is limited. Those
	// that unmount do not wait for those that mount, which may wait for a daemon.
	mounts, unmounts turns
}

func newNode(p *Plugin) *node {
	return &node{Plugin: p, mounts: make(turns, 8), unmounts: make(turns, 8)}
}

// turns has as many values as there are call-outs.
type turns chan struct{}

// wait waits for a turn, as long as the caller does.
func (t turns) wait(ctx context.Context) (end func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// NodePublishVolume makes the volume appear in its target, which it makes. The kubelet repeats
// it about every minute (requiresRepublish of the CSIDriver object), which heals a volume that
// is dead, in its place. When it fails, a target that was there is as it was.
func (n *node) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	// Before the target: that of a block volume is elsewhere.
	if err := check(r); err != nil {
		return nil, err
	}
	t, err := n.target(r.GetVolumeId(), r.GetTargetPath())
	if err != nil {
		return nil, err
	}
	options, err := n.options(t, r.GetVolumeContext())
	if err != nil {
		return nil, err
	}
	end, err := n.mounts.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	begun := time.Now()
	made := false
	err = n.onHost(func(binary string) (err error) {
		if binary == "" {
			return n.noBinary()
		}
		if made, err = volume.MakeDir(t.dir); err != nil {
			return status.Errorf(codes.Internal, "make the target: %v", err)
		}
		err = call(binary, mountTimeout, "mount", t.dir, options)
		if err != nil && made {
			// It fails if the call-out was killed, but has mounted: unpublish follows.
			_ = volume.RemoveDir(t.dir)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if made { // a repetition is not logged
		c := r.GetVolumeContext()
		n.Log("published %s for pod %q in %v", t, c[kubeletPrefix+"pod.namespace"]+"/"+c[kubeletPrefix+"pod.name"], since(begun))
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume removes the volume and its target, whether it is there, dead, in use, or
// neither.
func (n *node) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	t, err := n.target(r.GetVolumeId(), r.GetTargetPath())
	if err != nil {
		return nil, err
	}
	end, err := n.unmounts.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	begun := time.Now()
	err = n.onHost(func(binary string) error {
		if binary != "" { // without a driver, nothing is mounted, or it cannot be removed
			if err := call(binary, unmountTimeout, "unmount", t.dir); err != nil {
				return err
			}
		}
		err := volume.RemoveDir(t.dir)
		if binary == "" && errors.Is(err, unix.EBUSY) {
			return n.noBinary()
		} else if err != nil {
			return status.Errorf(codes.Internal, "remove the target: %v", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	n.Log("unpublished %s in %v", t, since(begun))
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetInfo answers with the node's name. There is no limit to the number of volumes.
func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.NodeID}, nil
}

// NodeGetCapabilities answers that there are none: volumes are not staged, and have no size.
func (n *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func since(begun time.Time) time.Duration { return time.Since(begun).Round(10 * time.Microsecond) }
