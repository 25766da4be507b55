package csi

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// The kubelet watches a directory for sockets, asks at each which plugin it belongs to, and
// forgets the plugin when the socket is removed (kubernetes v1.34,
// pkg/kubelet/pluginmanager/pluginwatcher). It does so anew when a socket gets the name of
// another one.

// registrar is the service at the registration's socket.
type registrar struct {
	registration.UnimplementedRegistrationServer
	*Plugin
	refused chan<- error // has room for one
}

// socketName is the name of the registration's socket.
func (p *Plugin) socketName() string { return p.Name + "-reg.sock" }

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.Name, Endpoint: r.endpoint(),
		SupportedVersions: []string{"1.0.0"}, // of CSI: later ones 1.x differ in what we do not have
	}, nil
}

// NotifyRegistrationStatus ends the plugin if the kubelet has refused it: it does not ask again
// until there is another socket, so that the plugin has to begin again.
func (r registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		r.Log("the kubelet has registered %s", r.Name)
	} else {
		select {
		case r.refused <- fmt.Errorf("the kubelet has not registered %s: %.500q", r.Name, s.GetError()):
		default:
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func (r registrar) register(s *grpc.Server) { registration.RegisterRegistrationServer(s, r) }
