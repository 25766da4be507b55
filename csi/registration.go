package csi

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// The kubelet watches a directory for sockets, asks at each which plugin it belongs to, and forgets
// the plugin when the socket is removed (kubernetes v1.34,
// pkg/kubelet/pluginmanager/pluginwatcher). The kubelet asks again when a new socket takes the name
// of an old one.

// registrar is the service that the kubelet asks at the registration's socket.
type registrar struct {
	registration.UnimplementedRegistrationServer
	*Plugin
	refused chan<- string // has room for one
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.name(), Endpoint: r.endpoint(),
		SupportedVersions: []string{"1.0.0"}, // of CSI: later ones 1.x differ in what we do not have
	}, nil
}

func (r registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		r.Log("the kubelet has registered %s", r.name())
	} else {
		select {
		case r.refused <- s.GetError():
		default:
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// registerDelay is how long to wait before the kubelet is offered the plugin again. It refuses the
// plugin, for example, while it does not know its node yet.
const registerDelay = 5 * time.Second

// register has the kubelet register the plugin, until the context ends, by a socket of the
// server's. A kubelet that has refused the plugin asks again only when there is another socket.
func (p *Plugin) register(ctx context.Context, server *grpc.Server, refused <-chan string, dir string) error {
	for {
		for len(refused) > 0 {
			<-refused // said late, of the socket before
		}
		at, err := listen(filepath.Join(dir, filepath.Base(p.Driver.CSIRegistration(p.KubeletDir))))
		if err != nil {
			return fmt.Errorf("make the socket of the registration: %w", err)
		}
		go func() { _ = server.Serve(at) }() // until it is closed
		select {
		case <-ctx.Done():
		case why := <-refused:
			p.Log("the kubelet has not registered %s, and is asked again in %v: %.500q", p.name(), registerDelay, why)
		}
		at.Close()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(registerDelay):
		}
	}
}
