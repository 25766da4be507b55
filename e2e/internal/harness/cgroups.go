package harness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroups are the cgroups that the driver has made for its daemon, below the root of a hierarchy
// or, if that is all it sees, below the cgroup of its container. The machines of e2e/systemd have a
// driver of the same name, and theirs are none of them.
func (d *Driver) Cgroups() []string {
	var found []string
	for _, place := range []string{"", podCgroup + "/*"} {
		for _, hierarchy := range hierarchies {
			name := d.Program() + "-" + strings.ReplaceAll(d.Name, "/", "~") + "*" // see package cgroup
			dirs, _ := filepath.Glob(filepath.Join(hierarchy, place, name))
			found = append(found, dirs...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// hierarchies are the mount points of cgroup v2, and of v1 or both.
var hierarchies = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"}

// podCgroup is where containerd makes the cgroups of containers, in each hierarchy. The
// kubelet names it another place only with cgroupsPerQOS, whatever its cgroupRoot says
// (kubernetes v1.34, pkg/kubelet/cm/pod_container_manager_linux.go).
const podCgroup = "k8s.io"

// PodCgroups are the cgroups of containers, each after the one that it is in.
func PodCgroups() []string {
	var found []string
	for _, dir := range []string{podCgroup, podCgroup + "/*"} {
		for _, hierarchy := range hierarchies {
			dirs, _ := filepath.Glob(filepath.Join(hierarchy, dir, "cgroup.procs"))
			for _, procs := range dirs {
				found = append(found, filepath.Dir(procs))
			}
		}
	}
	return found
}

// RemovePodCgroups removes those that were not there before, in which nothing runs any
// more, but for what is just ending. It tells which are of containers: their ends have not
// removed them.
func RemovePodCgroups(before []string) (left []string, err error) {
	for _, dir := range slices.Backward(PodCgroups()) {
		if slices.Contains(before, dir) {
			continue
		}
		if filepath.Base(dir) != podCgroup {
			left = append(left, dir)
		}
		err = errors.Join(err, RemoveCgroup(dir))
	}
	return left, err
}

// RemoveCgroup removes a cgroup in which nothing runs any more. It waits for what is just
// ending.
func RemoveCgroup(dir string) error {
	return Eventually(time.Minute, func() error {
		err := os.Remove(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // some hierarchies have links to them: cpu to cpu,cpuacct
		case err != nil && !errors.Is(err, unix.EBUSY):
			return HopelessError{err}
		}
		return err
	})
}
