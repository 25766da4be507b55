package csi_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// kubelet is the part of one that registers plugins: it dials a socket as soon as it has a name,
// in the directory that it watches.
func (w *world) register() registration.RegistrationClient {
	w.t.Helper()
	return registration.NewRegistrationClient(dial(w.t, w.registration()))
}

func TestThePluginRegistersItself(t *testing.T) {
	w := place(t)
	p := w.start()
	client := w.register()
	info, err := client.GetInfo(w.ctx(), &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if info.GetType() != "CSIPlugin" || info.GetName() != w.plugin.Driver.CSI() || info.GetEndpoint() != w.socket || strings.Join(info.GetSupportedVersions(), " ") != "1.0.0" {
		t.Errorf("it is %v", info)
	}
	if _, err := client.NotifyRegistrationStatus(w.ctx(), &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Error(err)
	}
	eventually(t, "it logs that", func() bool { return strings.Contains(p.output.String(), "has registered "+w.plugin.Driver.CSI()) })
	if status, output := w.probe(); status != 0 {
		t.Errorf("probe: %d, %s", status, output)
	}
}

// The kubelet does not ask again until there is another socket.
func TestARefusedPluginIsOfferedAgain(t *testing.T) {
	w := place(t)
	p := w.start()
	path := w.registration()
	client, refusal := w.register(), &registration.RegistrationStatus{Error: "no such\nnode"}
	if _, err := client.NotifyRegistrationStatus(w.ctx(), refusal); err != nil {
		t.Error(err)
	}
	eventually(t, "there is no socket", func() bool { _, err := os.Lstat(path); return os.IsNotExist(err) })
	if _, err := client.NotifyRegistrationStatus(w.ctx(), refusal); err != nil { // late, and of that socket
		t.Error(err)
	}
	if status, output := w.probe(); status != 0 {
		t.Errorf("probe: %d, %s", status, output)
	}
	eventually(t, "there is another one", func() bool { _, err := os.Lstat(path); return err == nil })
	if !strings.Contains(p.output.String(), `has not registered `+w.plugin.Driver.CSI()+`, and is asked again in 5s: "no such\nnode"`) {
		t.Errorf("it logs %s", p.output)
	}
	if _, err := w.register().GetInfo(w.ctx(), &registration.InfoRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
	if n := strings.Count(p.output.String(), "has not registered"); n != 1 {
		t.Errorf("what was said of the first socket ends the second one: %s", p.output)
	}
	if err := p.end(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(w.registrationDir()); err != nil || len(names) > 0 {
		t.Errorf("left are %v, %v", names, err)
	}
}
