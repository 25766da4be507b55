//go:build cluster

package cluster

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// A nodeState is what is on the node: what it is, and how many of it.
type nodeState map[string]int

// searched are the directories where something of the driver could stay.
var searched = []string{"/run", "/opt", "/var/lib", "/var/log", "/etc", "/usr/libexec"}

// lookAtNode looks at the mounts, processes, directories and cgroups of the node.
func lookAtNode() nodeState {
	s := nodeState{}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		s["mount "+strings.Fields(line)[4]]++
	}
	programs, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range programs {
		name, _ := os.ReadFile(comm)
		s["process "+strings.TrimSpace(string(name))]++
	}
	for _, top := range searched {
		filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil // it has just gone
			case slices.Contains(unsearched, path):
				return fs.SkipDir
			}
			s["file "+path]++
			return nil
		})
	}
	for _, root := range hierarchies() {
		cgroups, _ := filepath.Glob(filepath.Join(root, "*"+harness.Escaped(driverName)+"*"))
		for _, dir := range cgroups {
			s["cgroup "+dir]++
		}
	}
	return s
}

// unsearched are those of the kubelet, of containerd and of the network.
var unsearched = []string{clusterDir, "/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/run/containerd", "/run/netns", "/var/lib/cni"}

// changes are the differences to a later state.
func (s nodeState) changes(later nodeState) []string {
	var found []string
	for what, count := range later {
		if count != s[what] {
			found = append(found, fmt.Sprintf("%s: %d times, before %d times", what, count, s[what]))
		}
	}
	for what := range maps.Keys(s) {
		if later[what] == 0 {
			found = append(found, what+": gone")
		}
	}
	slices.Sort(found)
	return found
}
