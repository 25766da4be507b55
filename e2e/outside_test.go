//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// The places outside of the node's directory that a kubelet and a containerd
// touch, however they are configured.
var (
	// The kubelet's socket for device plugins.
	devicePlugins = "/var/lib/kubelet/device-plugins"
	// The kubelet's links to the containers' logs.
	containerLogs = "/var/log/containers"
	// The sockets of containerd's shims, which the shims remove.
	shimSockets = "/run/containerd/s"
)

// outside is how the machine was before the node started.
type outside struct {
	sysctls map[string][]byte
	missing []string // directories that did not exist, the innermost first
	cgroups []string // those of pods that existed
}

// lookOutside remembers how the machine is, and refuses one with a kubelet.
func lookOutside() (*outside, error) {
	socket := filepath.Join(devicePlugins, "kubelet.sock")
	if connection, err := net.Dial("unix", socket); err == nil {
		connection.Close()
		return nil, fmt.Errorf("a kubelet listens on %s: the tests would take its device plugins away; run them on another machine", socket)
	}
	before := &outside{sysctls: make(map[string][]byte)}
	for _, name := range harness.KubeletSysctls {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			return nil, fmt.Errorf("remember a sysctl that the kubelet sets: %w", err)
		}
		before.sysctls[name] = value
	}
	for _, dir := range []string{devicePlugins, containerLogs, shimSockets} {
		for ; !exists(dir); dir = filepath.Dir(dir) {
			before.missing = append(before.missing, dir)
		}
	}
	before.cgroups = harness.PodCgroups()
	return before, nil
}

// restore makes the machine what it was. A directory that cannot be removed
// because something is in it is left over.
func (before *outside) restore(nodeDir string) error {
	var errs []error
	for name, value := range before.sysctls {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), value, 0); err != nil {
			errs = append(errs, fmt.Errorf("restore a sysctl: %w", err))
		}
	}
	links, _ := filepath.Glob(filepath.Join(containerLogs, "*"))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, nodeDir+"/") {
			errs = append(errs, os.Remove(link))
		}
	}
	if slices.Contains(before.missing, devicePlugins) {
		errs = append(errs, os.RemoveAll(devicePlugins))
	}
	left, err := harness.RemovePodCgroups(before.cgroups)
	if errs = append(errs, err); len(left) > 0 {
		errs = append(errs, fmt.Errorf("left cgroups: %s", strings.Join(left, " ")))
	}
	for _, dir := range before.missing {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove a directory that was not there before: %w", err))
		}
	}
	return errors.Join(errs...)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
