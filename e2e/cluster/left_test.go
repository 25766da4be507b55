//go:build cluster

package cluster

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

// A state is what this machine has, and the machine of the cluster must not
// change: path or name, and what is there.
type state map[string]string

// driverCgroups are those that the drivers have made for their daemons.
func driverCgroups() []string { return append(installed.Cgroups(), installedPodFuse.Cgroups()...) }

// removeDriverCgroups removes those that were not there before. Their processes have ended.
func (before state) removeDriverCgroups() (err error) {
	for _, dir := range slices.Backward(driverCgroups()) {
		if _, there := before["cgroup "+dir]; !there {
			err = errors.Join(err, harness.RemoveCgroup(dir))
		}
	}
	return err
}

// look looks at this machine.
func look() (state, error) {
	s := state{}
	for _, name := range harness.KubeletSysctls {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			return nil, err
		}
		s["sysctl "+name] = strings.TrimSpace(string(value))
	}
	if _, err := net.InterfaceByName(podBridge); err == nil {
		s["network interface "+podBridge] = "there"
	}
	mounts, err := harness.MountsBelow(os.TempDir())
	if err != nil {
		return nil, err
	}
	for _, point := range mounts {
		if strings.Contains(point, machinePrefix) {
			s["mount "+point] = "there"
		}
	}
	for _, pattern := range []string{filepath.Join(os.TempDir(), machinePrefix+"*"), pluginDir, clusterDir} {
		found, _ := filepath.Glob(pattern)
		for _, dir := range found {
			s["directory "+dir] = "there"
		}
	}
	for _, dir := range slices.Concat(driverCgroups(), harness.PodCgroups()) {
		s["cgroup "+dir] = "there"
	}
	return s, nil
}

// compare tells what is not as it was.
func (before state) compare() error {
	after, err := look()
	if err != nil {
		return err
	}
	var errs []error
	for what, was := range before {
		// Cgroups that others have left are nobody's business: whoever removes them may do so.
		if now := after[what]; now != was && !(now == "" && strings.HasPrefix(what, "cgroup ")) {
			errs = append(errs, fmt.Errorf("%s was %q and is %q", what, was, after[what]))
		}
	}
	for what := range after {
		if _, there := before[what]; !there {
			errs = append(errs, fmt.Errorf("left %s", what))
			if dir, is := strings.CutPrefix(what, "cgroup "); is {
				errs = append(errs, harness.RemoveCgroup(dir))
			}
		}
	}
	return errors.Join(errs...)
}
