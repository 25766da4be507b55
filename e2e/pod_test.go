//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// startLimit is how long a pod may take to run, endLimit to be gone. The kubelet
// looks for what to tidy every two seconds; the machine may be slow.
const (
	startLimit = 2 * time.Minute
	endLimit   = 2 * time.Minute
)

// A testPod is a pod that a test put on the node.
type testPod struct {
	*manifest
	node *node
	uid  string // as the kubelet says
}

// manifest is the path of a static pod's manifest.
func (n *node) manifest(name string) string { return filepath.Join(n.manifests(), name+".json") }

// createPod gives the kubelet a pod and waits until it knows it, running or not.
// The test's end takes the pod away and looks for leftovers.
func createPod(t *testing.T, m *manifest) *testPod {
	t.Helper()
	n := testNode
	p := &testPod{manifest: m, node: n}
	t.Cleanup(func() {
		if t.Failed() {
			p.printLog(t)
		}
		if err := p.delete(); err != nil {
			t.Error(err)
		}
	})
	// The kubelet may look at any moment, but not at names with a dot.
	staging := filepath.Join(n.manifests(), "."+m.Metadata.Name)
	if err := os.WriteFile(staging, harness.JSON(m), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(staging, n.manifest(m.Metadata.Name)); err != nil {
		t.Fatal(err)
	}
	err := harness.Eventually(startLimit, func() error {
		known, err := p.ask()
		p.uid = known.Metadata.UID
		return err
	})
	if err != nil {
		t.Fatalf("create the pod %s: %v", m.Metadata.Name, err)
	}
	return p
}

// runPod creates a pod and waits until its containers run.
func runPod(t *testing.T, m *manifest) *testPod {
	t.Helper()
	p := createPod(t, m)
	for _, c := range m.Spec.Containers {
		p.waitFor(t, c.Name)
	}
	return p
}

// ask asks the kubelet for the pod.
func (p *testPod) ask() (pod, error) {
	pods, err := p.node.pods()
	if err != nil {
		return pod{}, err
	}
	for _, known := range pods {
		// The kubelet appends the node's name to a static pod's.
		if known.Metadata.Name == p.Metadata.Name+"-"+nodeName {
			return known, nil
		}
	}
	return pod{}, fmt.Errorf("the kubelet does not know the pod %s", p.Metadata.Name)
}

// container is the id of one of the pod's containers, if it runs.
func (p *testPod) container(name string) (string, error) {
	known, err := p.ask()
	if err != nil {
		return "", err
	}
	for _, c := range slices.Concat(known.Status.InitContainerStatuses, known.Status.ContainerStatuses) {
		if c.Name == name && c.State.Running != nil {
			return strings.TrimPrefix(c.ContainerID, "containerd://"), nil
		}
	}
	return "", fmt.Errorf("container %s of the pod %s does not run, the pod is %s", name, p.Metadata.Name, known.Status.Phase)
}

// mustContainer is container for one that has to run.
func (p *testPod) mustContainer(t *testing.T, name string) string {
	t.Helper()
	id, err := p.container(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// waitFor waits until one of the pod's containers runs.
func (p *testPod) waitFor(t *testing.T, container string) {
	t.Helper()
	err := harness.Eventually(startLimit, func() error {
		_, err := p.container(container)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// volumeDirs is the pod's directory of the driver's volumes.
func (p *testPod) volumeDirs(driver string) string {
	return filepath.Join(p.node.podDir(p.uid), "volumes", harness.Escaped(driver))
}

// remove takes the pod off the node.
func (p *testPod) remove() error {
	err := os.Remove(p.node.manifest(p.Metadata.Name))
	if errors.Is(err, os.ErrNotExist) {
		return nil // a second time
	}
	return err
}

// delete takes the pod off the node and waits until there is nothing left of it
// and its volumes.
func (p *testPod) delete() error {
	if err := p.remove(); err != nil {
		return err
	}
	err := harness.Eventually(endLimit, func() error {
		if _, err := p.ask(); err == nil {
			return errors.New("the kubelet still knows it")
		}
		return p.leftovers()
	})
	if err != nil {
		return fmt.Errorf("delete the pod %s: %w", p.Metadata.Name, err)
	}
	return nil
}

// leftovers tells what is left of the pod and its volumes. It looks at mounts
// before it looks at directories, which may be dead mounts.
func (p *testPod) leftovers() error {
	if p.uid == "" {
		return nil
	}
	mounts, err := harness.MountsBelow(p.node.podDir(p.uid))
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("it left mounts: %s", strings.Join(mounts, " "))
	}
	if dir := p.node.podDir(p.uid); exists(dir) {
		return fmt.Errorf("it left its directory %s", dir)
	}
	for _, d := range p.node.drivers {
		records, err := d.records(p.uid)
		if err == nil && len(records) > 0 {
			if err = d.initIfLingering(p.uid); err == nil {
				records, err = d.records(p.uid)
			}
		}
		if err != nil {
			return err
		}
		if len(records) > 0 {
			return fmt.Errorf("it left records: %s", strings.Join(records, " "))
		}
	}
	return nil
}

// printLog prints what the kubelet has logged of the pod, and how the driver is.
func (p *testPod) printLog(t *testing.T) {
	lines, err := p.node.LogLines("kubelet", p.Metadata.Name)
	if err != nil {
		t.Log(err)
	}
	t.Logf("the kubelet's log on %s ends:\n%s", p.Metadata.Name, strings.Join(harness.Last(lines, 15), ""))
	driverLines, err := p.node.LogLines(driverLog)
	if err != nil {
		t.Log(err)
	}
	t.Logf("the driver's log ends:\n%s", strings.Join(harness.Last(driverLines, 40), ""))
	t.Log(p.node.driver(driverName).Report())
}
