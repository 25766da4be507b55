package csi

import (
	"cmp"
	"context"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"
)

// identity is the service that every CSI plugin has.
type identity struct {
	csi.UnimplementedIdentityServer
	*Plugin
	mu   sync.Mutex // guards said
	said string     // why it was not ready when that was logged last; "": it was
}

func (i *identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.name(), VendorVersion: i.Version}, nil
}

// GetPluginCapabilities answers that there are none: no controller, and no topology.
func (i *identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe fails with FailedPrecondition while the plugin cannot reach the host, or the driver is
// not installed there. It calls init of a driver that is new, and of any once a minute. It comes
// every few seconds, and logs a change only.
func (i *identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	err := i.onHost(func(h host) error {
		if h.binary == "" {
			return i.noBinary()
		}
		i.initialize(h)
		return nil
	})
	i.logChange(err)
	if err != nil {
		return nil, err
	}
	return &csi.ProbeResponse{}, nil // not said to be unready: it is ready
}

func (i *identity) logChange(err error) {
	text := ""
	if err != nil {
		text = "not ready: " + status.Convert(err).Message()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if text != i.said {
		i.said = text
		i.Log("%s", cmp.Or(text, "ready"))
	}
}
