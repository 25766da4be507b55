package csi

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// The kubelet watches a directory for sockets, asks at each which plugin it belongs to, and forgets
// the plugin when the socket is removed (kubernetes v1.34,
// pkg/kubelet/pluginmanager/pluginwatcher). The kubelet asks again when a new socket takes the name
// of an old one.

// registrar is the service at the registration's socket.
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

// register has the kubelet register the plugin, until the context ends. A kubelet that has refused
// the plugin asks again only when there is another socket.
func (p *Plugin) register(ctx context.Context, dir string) error {
	for {
		refused := make(chan string, 1)
		at, err := listen(filepath.Join(dir, filepath.Base(p.Driver.CSIRegistration(p.KubeletDir))))
		if err != nil {
			return fmt.Errorf("make the socket of the registration: %w", err)
		}
		server := p.server()
		registration.RegisterRegistrationServer(server, registrar{Plugin: p, refused: refused})
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(at) }()
		select {
		case <-ctx.Done():
		case err = <-ended:
		case why := <-refused:
			p.Log("the kubelet has not registered %s, and is asked again in %v: %.500q", p.name(), registerDelay, why)
		}
		at.Close()
		stop(server)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(registerDelay):
		}
	}
}
