//go:build e2e

package e2e

import (
	"path/filepath"
	"slices"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

func TestDeletion(t *testing.T) {
	d := testNode.driver(driverName)
	p := runPod(t, newManifest("deletion"))
	dir := filepath.Join(p.volumeDirs(driverName), "pod-info")

	// First that we look for leftovers in the right places.
	mounts, err := harness.MountsBelow(p.node.podDir(p.uid))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(mounts, dir) {
		t.Errorf("the pod runs and %s is not a mount", dir)
	}
	status, err := d.Status()
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Volumes) != 1 {
		t.Fatalf("one pod runs and the driver has the volumes %+v", status.Volumes)
	}
	v := status.Volumes[0]
	want := harness.Volume{ID: v.ID, Dir: dir, PodUID: p.uid, PodName: p.Metadata.Name + "-" + nodeName, PodNamespace: "default", State: "ok"}
	if v != want {
		t.Errorf("the driver has the volume %+v, want %+v", v, want)
	}
	record := filepath.Join(d.RunDir(), "volumes", v.ID+".json")
	if records, err := d.records(p.uid); err != nil || !slices.Equal(records, []string{record}) {
		t.Errorf("the pod runs and its records are %v (%v), want %s", records, err, record)
	}

	if err := p.delete(); err != nil {
		t.Error(err)
	}
}

// The kubelet that comes up finds the volumes of pods that went while it was
// away, and unmounts them.
func TestDeletionWithoutKubelet(t *testing.T) {
	p := runPod(t, newManifest("without-kubelet"))
	if err := testNode.killKubelet(); err != nil {
		t.Fatal(err)
	}
	if err := p.remove(); err != nil {
		t.Fatal(err)
	}
	if err := testNode.startKubelet(); err != nil {
		t.Fatal(err)
	}
	if err := p.delete(); err != nil {
		t.Error(err)
	}
}
