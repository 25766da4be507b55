//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// A node is one containerd and one kubelet with the drivers, below one directory.
type node struct {
	harness.Node
	kubelet *harness.Process
	port    int // the kubelet's
	drivers []*driver
	outside *outside
	ids     atomic.Uint64 // the last of newID

	stopping sync.Once
	stopped  error // what stop found
}

// startNode returns the node even when it fails, so that its logs can be printed
// and it can be taken down.
func startNode() (*node, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a kubelet needs root")
	}
	outside, err := lookOutside()
	if err != nil {
		return nil, err
	}
	// Not os.TempDir: the path of a unix socket has 107 bytes, and some are far
	// below this directory.
	dir, err := os.MkdirTemp("/tmp", "e2e-")
	if err != nil {
		return nil, err
	}
	n := &node{Node: harness.Node{Dir: dir}, outside: outside}
	if err := harness.UseRuntime("bin"); err != nil {
		return n, err
	}
	for _, program := range []string{"recorder", "loopback"} {
		if err := n.Build(program, "./"+program); err != nil {
			return n, err
		}
	}
	if err := n.StartContainerd(image); err != nil {
		return n, err
	}
	programs := map[string]string{"loopback": n.Program("loopback"), "pod-info-fuse": binary}
	if err := n.ImportImage(harness.Image{Name: image, Programs: programs}); err != nil {
		return n, err
	}
	if err := n.configureKubelet(); err != nil {
		return n, err
	}
	if err := n.startKubelet(); err != nil {
		return n, err
	}
	// The drivers come to a node that is already up, as a DaemonSet's pod brings
	// them: the kubelet has to notice.
	return n, n.installDrivers()
}

// stop takes the node down and tells what had to be forced and what was left.
// When it is called again, after an interrupt, it waits for the first call.
func (n *node) stop() error {
	n.stopping.Do(func() { n.stopped = n.takeDown() })
	return n.stopped
}

func (n *node) takeDown() error {
	var errs []error
	errs = append(errs, n.endPods())
	// The drivers after the kubelet: it would call them again.
	errs = append(errs, n.stopKubelet())
	for _, d := range n.drivers {
		errs = append(errs, d.stop())
	}
	errs = append(errs, n.StopContainerd(), n.LeftProcesses())
	for _, d := range n.drivers {
		errs = append(errs, harness.RemoveTree(d.RunDir()))
	}
	errs = append(errs, harness.RemoveTree(n.Dir), n.outside.restore(n.Dir))
	return errors.Join(errs...)
}

// endPods takes every pod off the node and waits until the kubelet has ended the
// containers, which it does only while it runs.
func (n *node) endPods() error {
	if n.kubelet == nil || n.kubelet.Running() != nil {
		return nil
	}
	manifests, err := filepath.Glob(n.manifest("*"))
	if err != nil {
		return err
	}
	for _, manifest := range manifests {
		if err := os.Remove(manifest); err != nil {
			return err
		}
	}
	return harness.Eventually(endLimit, func() error {
		tasks, err := n.Tasks()
		if err == nil && len(tasks) > 0 {
			err = fmt.Errorf("containers that the kubelet has not ended: %s", strings.Join(tasks, " "))
		}
		return err
	})
}

// newID makes names that differ within the run.
func (n *node) newID(prefix string) string {
	return fmt.Sprintf("%s-%d", prefix, n.ids.Add(1))
}
