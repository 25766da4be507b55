package csi_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"example.com/pod-info-fuse/csi"
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

// The readiness of its pod would not tell.
func TestAPluginThatNobodyRegistersSaysSo(t *testing.T) {
	w := place(t)
	w.shortens(csi.RegistrationSilence, time.Millisecond)
	w.serve()
	said := "is " + strconv.Quote(w.kubelet) + ", of --kubelet-dir, the kubelet's --root-dir?"
	eventually(t, "it logs that", func() bool { return w.log.with(said) == 1 })
}

// The kubelet does not ask again until there is another socket.
func TestARefusedPluginIsOfferedAgain(t *testing.T) {
	w := place(t)
	p := w.start()
	path := w.registration()
	if _, err := w.register().NotifyRegistrationStatus(w.ctx(), &registration.RegistrationStatus{Error: "no such\nnode"}); err != nil {
		t.Error(err)
	}
	eventually(t, "there is no socket", func() bool { _, err := os.Lstat(path); return os.IsNotExist(err) })
	if status, output := w.probe(); status != 0 {
		t.Errorf("probe: %d, %s", status, output)
	}
	eventually(t, "there is another one", func() bool { _, err := os.Lstat(path); return err == nil })
	if !strings.Contains(p.output.String(), `has not registered `+w.plugin.Driver.CSI()+`, and is asked again in 5s: "no such\nnode"`) {
		t.Errorf("it logs %s", p.output)
	}
	if _, err := w.register().GetInfo(w.ctx(), &registration.InfoRequest{}); err != nil {
		t.Error(err)
	}
	if err := p.end(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(w.registrationDir()); err != nil || len(names) > 0 {
		t.Errorf("left are %v, %v", names, err)
	}
}

// A kubelet dials when it sees the name, and must find somebody there. It watches renames, too.
func TestASocketHasItsNameWhenItIsListenedAt(t *testing.T) {
	w := place(t)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, w.registrationDir(), unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_DELETE); err != nil {
		t.Fatal(err)
	}
	p := w.start()
	w.start() // in its place
	if err := p.end(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	buffer := make([]byte, 4096)
	n, err := unix.Read(fd, buffer)
	if err != nil {
		t.Fatal(err)
	}
	name := w.plugin.Driver.CSI() + "-reg.sock"
	events := strings.Count(string(buffer[:n]), name)
	hidden := strings.Count(string(buffer[:n]), "."+name)
	if events != 4 || hidden != 2 {
		t.Errorf("%d events, %d of them of the hidden name; want that each of the two is made hidden, and gets its name: %q", events, hidden, buffer[:n])
	}
	if _, err := w.register().GetInfo(context.Background(), &registration.InfoRequest{}); err != nil {
		t.Error(err)
	}
}
