//go:build cluster

package cluster

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A nodeState is what is on the node: what it is, and how many of it.
type nodeState map[string]int

// unsearched are the directories of the cluster, of containerd and of the network,
// which change with any pod, and the one that does not change.
var unsearched = []string{clusterDir, "/run/containerd", "/run/netns", written + "/var/lib/cni", original}

// lookAtNode looks at the mounts, processes and cgroups of the node, and at what was
// written: into /run, which has what was written elsewhere, too.
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
	filepath.WalkDir("/run", func(path string, entry fs.DirEntry, err error) error {
		before, elsewhere := strings.CutPrefix(path, written)
		switch {
		case err != nil:
			return nil // it has just gone
		case slices.Contains(unsearched, path):
			return fs.SkipDir
		case elsewhere && entry.IsDir() && isDir(original+before):
			return nil // something below it was written
		}
		s["file "+path]++
		return nil
	})
	for _, dir := range driverCgroups() {
		s["cgroup "+dir]++
	}
	return s
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// changes are the differences to a later state.
func (s nodeState) changes(later nodeState) []string {
	var found []string
	for what, count := range later {
		if count != s[what] {
			found = append(found, fmt.Sprintf("%s: %d times, before %d times", what, count, s[what]))
		}
	}
	for what := range s {
		if later[what] == 0 {
			found = append(found, what+": gone")
		}
	}
	slices.Sort(found)
	return found
}
