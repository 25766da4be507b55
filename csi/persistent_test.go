package csi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// mustUnpublishPersistent is as the kubelet does it: the id is the persistent volume's.
func (w *world) mustUnpublishPersistent(target string) {
	w.t.Helper()
	if _, err := w.NodeUnpublishVolume(w.ctx(), &spec.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: target}); err != nil {
		w.t.Fatal(err)
	}
}

// All pods of a node that have a persistent volume have its volume_id. Each reads about itself,
// whatever becomes of the other.
func TestTwoPodsHaveOnePersistentVolume(t *testing.T) {
	w := serve(t)
	pods := map[string]string{podUID: w.target(podUID, "pv.pod-info"), otherUID: w.target(otherUID, "pv.pod-info")}
	for uid, target := range pods {
		w.mustPublish(target, persistent, with("facts", "pod.name"), with("csi.storage.k8s.io/pod.name", "web-"+uid[:1]))
	}
	read := func() {
		t.Helper()
		for uid, target := range pods {
			w.readsOf(uid, target)
			if got, err := os.ReadFile(filepath.Join(target, "pod.name")); err != nil || string(got) != "web-"+uid[:1]+"\n" {
				t.Errorf("pod.name of %s is %q, %v", uid, got, err)
			}
		}
	}
	read()
	if status, err := exec.Command(w.binary, "status").CombinedOutput(); err != nil ||
		strings.Count(string(status), "pv.pod-info") < 2 || !strings.Contains(string(status), "shop/web-1") || !strings.Contains(string(status), "shop/web-9") {
		t.Errorf("status: %v: %s", err, status)
	}
	w.kill()
	w.mustPublish(pods[otherUID], persistent, with("facts", "pod.name"), with("csi.storage.k8s.io/pod.name", "web-9"))
	read() // a republication for one pod has healed both
	w.mustUnpublishPersistent(pods[podUID])
	w.isUnpublished(pods[podUID])
	w.readsOf(otherUID, pods[otherUID])
	w.mustPublish(pods[podUID], persistent)
	w.mustUnpublishPersistent(pods[otherUID])
	w.isUnpublished(pods[otherUID])
	w.reads(pods[podUID])
	w.mustUnpublishPersistent(pods[podUID])
	w.isGone(pods[podUID])
}

// The kubelet asks for both pods at once, and a request for one keeps no other from its volume.
func TestARequestForOnePodDoesNotKeepAnotherFromThePersistentVolume(t *testing.T) {
	w := place(t)
	begun, ended := filepath.Join(w.kubelet, "begun"), filepath.Join(w.kubelet, "ended")
	w.installs(fmt.Sprintf(`case $1$2 in mount*/%s/*) touch %s; until [ -e %s ]; do sleep .01; done; esac`, podUID, begun, ended))
	serveIn(w)
	slow, other := w.target(podUID, "pv"), w.target(otherUID, "pv")
	var all sync.WaitGroup
	all.Go(func() {
		if err := w.publish(slow, persistent); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the call-out for one pod has begun", func() bool { _, err := os.Lstat(begun); return err == nil })
	w.mustPublish(other, persistent)
	w.mustUnpublishPersistent(other)
	if err := os.WriteFile(ended, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	w.mustUnpublishPersistent(slow)
	w.isGone(slow)
}

// The demonstration of dummy-fuse-csi, with two pods by one claim: they read on by the same
// descriptors while the plugin is killed and started, and the processes that serve them open
// nothing that they do not close.
func TestReadersByAClaimOutliveThePlugin(t *testing.T) {
	w := place(t)
	p := w.start()
	targets := []string{w.target(podUID, "pv"), w.target(otherUID, "pv")}
	var files []*os.File
	for _, target := range targets {
		w.mustPublish(target, persistent)
		file, err := os.Open(filepath.Join(target, "pod.nodename")) // each read asks the daemon
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files = append(files, file)
	}
	read := func() {
		t.Helper()
		for _, file := range files {
			content := make([]byte, 100)
			if n, err := file.ReadAt(content, 0); n == 0 {
				t.Fatalf("read %s: %v", file.Name(), err)
			}
		}
	}
	descriptors := func() (counts [2]int) {
		for i, pid := range w.pair() {
			open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			if err != nil {
				t.Fatal(err)
			}
			counts[i] = len(open)
		}
		return counts
	}
	read()
	mounted, opened := mounts(), descriptors()
	for range 3 {
		_ = p.end(syscall.SIGKILL)
		read()
		p = w.start()
		for _, target := range targets {
			w.mustPublish(target, persistent)
		}
		read()
	}
	if now := mounts(); strings.Join(now, "\n") != strings.Join(mounted, "\n") {
		t.Errorf("the mounts are %q, and were %q", now, mounted)
	}
	var now [2]int
	eventually(t, fmt.Sprintf("as many open descriptors as before, %v", opened), func() bool { now = descriptors(); return now == opened })
	t.Logf("the active process has %d open descriptors, the standby %d, as before", now[0], now[1])
	for i, target := range targets {
		files[i].Close()
		w.mustUnpublishPersistent(target)
		w.isUnpublished(target)
	}
	w.isGone(targets[0])
}

// A volume by a claim has the persistent volume's name, with dots, in the place of the one in the
// pod's spec. What serves it names that, in each pod that pod's own.
func TestPodFuseByClaims(t *testing.T) {
	w := placeOf(t, podFuse, "serves", "wait", "default_permissions", "program")
	w.plugin.PolicyAttribute = "program"
	w.start()
	const name = "pv.fuse-data"
	isError(t, w.publish(w.target(podUID, name), persistent, with("program", "s3fs"), with("bucket", "b")), codes.InvalidArgument, "no admission policy looks behind a claim")
	isError(t, w.publish(w.target(podUID, name), persistent, with("serves", "../"+name)), codes.InvalidArgument, "is not the name of a volume")
	var targets []string
	for _, uid := range []string{podUID, otherUID} {
		client, server := w.target(uid, name), w.target(uid, "server-pv")
		targets = append(targets, client, server)
		for range 2 {
			w.mustPublish(client, persistent, with("wait", "5s"))
			w.mustPublish(server, persistent, with("serves", name))
		}
	}
	output, err := exec.Command(w.binary, "status", "-o", "json").Output()
	var status struct {
		Programs []struct{ Name, Problem string }
	}
	if err == nil {
		err = json.Unmarshal(output, &status)
	}
	served := 0
	for _, p := range status.Programs {
		if p.Name == name && p.Problem == "" {
			served++
		}
	}
	if err != nil || served != 2 {
		t.Errorf("status has %d client volumes that have a server volume, want 2: %v\n%s", served, err, output)
	}
	for _, target := range targets {
		w.mustUnpublishPersistent(target)
		w.isUnpublished(target)
	}
	w.isGone(targets[0])
}
