package csisanity

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// controller is a stand-in for the controller that the plugin does not have. Tests of the node
// service that no capability gates call it, to get a volume; its answer has the attributes that a
// kubelet gives to a persistent volume.
type controller struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
}

func (controller) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "stand-in.example.com", VendorVersion: "0"}, nil
}

func (controller) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (controller) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: r.GetName(), VolumeContext: map[string]string{
		"csi.storage.k8s.io/ephemeral": "false", "csi.storage.k8s.io/pod.uid": podUID, "csi.storage.k8s.io/pod.name": "web-0",
		"csi.storage.k8s.io/pod.namespace": "shop", "csi.storage.k8s.io/serviceAccount.name": "default",
	}}}, nil
}

func (controller) DeleteVolume(context.Context, *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, nil
}
