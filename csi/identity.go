package csi

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// identity is the service that every CSI plugin has.
type identity struct {
	csi.UnimplementedIdentityServer
	*Plugin
}

func (i identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.name(), VendorVersion: i.Version}, nil
}

// GetPluginCapabilities answers that there are none: no controller, and no topology.
func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe fails with FailedPrecondition while the plugin cannot reach the host, or the driver is
// not installed there. It calls init of a driver that is new, and of any once a minute.
func (i identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	err := i.onHost(func(binary string) error {
		if binary == "" {
			return i.noBinary()
		}
		i.initialize(binary)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &csi.ProbeResponse{}, nil // not said to be unready: it is ready
}
