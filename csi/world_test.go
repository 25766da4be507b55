package csi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"example.com/pod-info-fuse/csi"
	"example.com/pod-info-fuse/flex"
)

const (
	podUID   = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"
	otherUID = "9c5b0b2b-0f7e-4a0e-8f0a-5d8c6b7a9e1f"
	// handle is the volumeHandle of the persistent volumes.
	handle = "example.com/pod info"
	// forever is longer than anything takes that ends.
	forever = 30 * time.Second
)

// world is a node with a driver and a plugin, and a kubelet that is this test.
type world struct {
	t       *testing.T
	kubelet string // its directory
	binary  string // of the installed driver
	plugin  *csi.Plugin
	socket  string
	log     *log
	spec.IdentityClient
	spec.NodeClient
}

// log has the plugin's lines.
type log struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// with counts the lines that have a text.
func (l *log) with(text string) (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}

// place makes a node with an installed driver, and a plugin that does not serve yet.
func place(t *testing.T) *world { t.Helper(); return placeOf(t, driver, "facts") }

// placeOf is the same for any driver, and the attributes of its volumes.
func placeOf(t *testing.T, driver string, attributes ...string) *world {
	t.Helper()
	kubelet, err := os.MkdirTemp("", "kubelet-") // short: it is in the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	name, err := flex.ParseName(vendor + "/" + filepath.Base(driver))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, kubelet: kubelet, log: &log{}}
	w.binary = filepath.Join(kubelet, "exec", name.Dir(), name.File())
	w.plugin = &csi.Plugin{
		Driver: name, Version: "1.2.3", NodeID: "node-1",
		KubeletDir: kubelet, Binary: w.binary, Attributes: attributes, Log: w.log.add,
	}
	w.socket = name.CSISocket(kubelet)
	for _, dir := range []string{filepath.Dir(w.binary), filepath.Dir(w.socket), w.registrationDir(), kubelet} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(driver, w.binary); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if output, err := exec.Command(driver, "stop", "--force", "--driver", name.String()).CombinedOutput(); err != nil {
			t.Errorf("stop: %v: %s", err, output)
		}
		if err := os.RemoveAll(kubelet); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) registration() string    { return w.plugin.Driver.CSIRegistration(w.kubelet) }
func (w *world) registrationDir() string { return filepath.Dir(w.registration()) }

// serve makes a node whose plugin serves.
func serve(t *testing.T) *world {
	t.Helper()
	w := place(t)
	w.serve()
	return w
}

// serve has the plugin serve in this process, until the test ends.
func (w *world) serve() {
	w.t.Helper()
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.plugin.Serve(ctx, w.socket, w.registrationDir()) }()
	w.t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			w.t.Errorf("serve: %v", err)
		}
	})
	w.connect()
}

// connect waits for the plugin, and connects to it.
func (w *world) connect() {
	w.t.Helper()
	connection := dial(w.t, w.socket)
	w.IdentityClient, w.NodeClient = spec.NewIdentityClient(connection), spec.NewNodeClient(connection)
	if _, err := w.GetPluginInfo(w.ctx(), &spec.GetPluginInfoRequest{}, grpc.WaitForReady(true)); err != nil {
		w.t.Fatal(err)
	}
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), forever)
	w.t.Cleanup(cancel)
	return ctx
}

// target makes the parent of a volume's target, as the kubelet does, and returns the target.
func (w *world) target(uid, name string) string {
	w.t.Helper()
	dir := filepath.Join(w.kubelet, "pods", uid, "volumes/kubernetes.io~csi", name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		w.t.Fatal(err)
	}
	return filepath.Join(dir, "mount")
}

// request is the kubelet's, for an inline volume.
func request(target string, mutate ...func(*spec.NodePublishVolumeRequest)) *spec.NodePublishVolumeRequest {
	r := &spec.NodePublishVolumeRequest{
		VolumeId: "csi-5c6b0f0a", TargetPath: target,
		VolumeCapability: &spec.VolumeCapability{
			AccessType: &spec.VolumeCapability_Mount{Mount: &spec.VolumeCapability_MountVolume{}},
			AccessMode: &spec.VolumeCapability_AccessMode{Mode: spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
		VolumeContext: map[string]string{
			"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.uid": podUID, "csi.storage.k8s.io/pod.name": "web-0",
			"csi.storage.k8s.io/pod.namespace": "shop", "csi.storage.k8s.io/serviceAccount.name": "default",
		},
	}
	for _, m := range mutate {
		m(r)
	}
	return r
}

// persistent has the kubelet's request be for a persistent volume. Its id is the same for each pod,
// whom the kubelet knows by the target.
func persistent(r *spec.NodePublishVolumeRequest) {
	r.VolumeId = handle
	r.VolumeCapability.AccessMode.Mode = spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	r.VolumeContext["csi.storage.k8s.io/ephemeral"] = "false"
	if parts := strings.Split(r.TargetPath, "/"); len(parts) > 5 {
		r.VolumeContext["csi.storage.k8s.io/pod.uid"] = parts[len(parts)-5]
	}
}

func with(key, value string) func(*spec.NodePublishVolumeRequest) {
	return func(r *spec.NodePublishVolumeRequest) { r.VolumeContext[key] = value }
}

// takeAway takes the driver from where it is installed, until back is called.
func (w *world) takeAway() (back func()) {
	w.t.Helper()
	move := func(from, to string) {
		w.t.Helper()
		if err := os.Rename(from, to); err != nil {
			w.t.Fatal(err)
		}
	}
	away := w.binary + ".away"
	move(w.binary, away)
	return func() { w.t.Helper(); move(away, w.binary) }
}

func (w *world) publish(target string, mutate ...func(*spec.NodePublishVolumeRequest)) error {
	_, err := w.NodePublishVolume(w.ctx(), request(target, mutate...))
	return err
}

func (w *world) unpublish(target string) error {
	_, err := w.NodeUnpublishVolume(w.ctx(), &spec.NodeUnpublishVolumeRequest{VolumeId: "csi-5c6b0f0a", TargetPath: target})
	return err
}

func (w *world) mustPublish(target string, mutate ...func(*spec.NodePublishVolumeRequest)) {
	w.t.Helper()
	if err := w.publish(target, mutate...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mustUnpublish(target string) {
	w.t.Helper()
	if err := w.unpublish(target); err != nil {
		w.t.Fatal(err)
	}
}

// reads fails unless the volume tells its pod's UID.
func (w *world) reads(target string) { w.t.Helper(); w.readsOf(podUID, target) }

func (w *world) readsOf(uid, target string) {
	w.t.Helper()
	if got, err := os.ReadFile(filepath.Join(target, "pod.uid")); err != nil || string(got) != uid+"\n" {
		w.t.Errorf("pod.uid is %q, %v, want %s", got, err, uid)
	}
}

// isUnpublished fails if a volume is mounted, or has its target.
func (w *world) isUnpublished(target string) {
	w.t.Helper()
	if lines := mountsOn(target); len(lines) > 0 {
		w.t.Errorf("mounted: %q", lines)
	}
	if _, err := os.Lstat(target); !os.IsNotExist(err) {
		w.t.Errorf("the target is there, or %v", err)
	}
}

// isGone fails unless nothing is left of a volume: no mount, target or record, but one that stays
// until the pod's directory is gone.
func (w *world) isGone(target string) {
	w.t.Helper()
	w.isUnpublished(target)
	records, _ := filepath.Glob("/run/pod*/*/*volumes/*")
	for _, record := range records {
		id := strings.TrimSuffix(filepath.Base(record), ".json")
		mark := filepath.Join(filepath.Dir(filepath.Dir(record)), "lingering", id)
		if _, err := os.Stat(mark); err != nil {
			w.t.Errorf("there is the record %s", record)
		}
	}
}

// pair are the PIDs of the two processes that serve.
func (w *world) pair() (pids []int) {
	w.t.Helper()
	eventually(w.t, "both processes serve", func() bool {
		output, err := exec.Command(w.binary, "status", "-o", "json").Output()
		var s struct {
			Daemon struct{ Active, Standby struct{ PID int } }
		}
		if err == nil {
			err = json.Unmarshal(output, &s)
		}
		if err != nil {
			w.t.Fatalf("status: %v: %s", err, output)
		}
		pids = []int{s.Daemon.Active.PID, s.Daemon.Standby.PID}
		return pids[0] != 0 && pids[1] != 0
	})
	return pids
}
