// Package driver is what the call-outs of pod-info-fuse do.
package driver

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/node"
)

// patience is how long a call-out waits for the daemon to answer. The kubelet
// waits for ever, and so would its other volume operations on the pod.
const patience = 10 * time.Second

// Driver implements flex.Driver on a node.
type Driver struct {
	Node node.Node
	// ConfigError is why the configuration could not be read. It fails mount;
	// init and unmount go on without.
	ConfigError error
	// Facts are what every volume has beside the files of the proposal.
	Facts []string
}

var _ flex.Driver = Driver{}

// Init answers that volumes need nothing of the kubelet but mount and unmount.
// In particular, no relabelling by SELinux and no change of ownership for
// fsGroup: both fail on a read-only file system.
//
// Where the driver has volumes, it also does what is due there: the kubelet calls
// init when it starts, and when the driver was replaced. It never fails, because
// the kube-controller-manager calls it as well, in a container that has neither
// the node's /run nor /dev/fuse.
func (d Driver) Init() (flex.Capabilities, error) {
	if err := d.Node.Maintain(); err != nil {
		d.Node.Log("init: %v", err)
	}
	return flex.Capabilities{}, nil
}

// cleanPath returns the directory in the form that the volume's id is made of.
func cleanPath(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("directory %q is not an absolute path", dir)
	}
	clean := filepath.Clean(dir)
	if clean == "/" {
		return "", errors.New("directory / cannot be a volume")
	}
	if strings.TrimRight(dir, "/") != clean {
		return "", fmt.Errorf("directory %q is not in its shortest form, %q", dir, clean)
	}
	return clean, nil
}

// errSilent says that the daemon hangs, and no standby has replaced it.
var errSilent = errors.New("the daemon does not answer; see its processes with pod-info-fuse status")

// within runs a function that may have to wait for the daemon. The wait of a
// request that the daemon has read cannot be ended, not even with the process: the
// kubelet then waits on, until the daemon is replaced.
func within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return errSilent
	}
}
