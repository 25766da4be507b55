//go:build cluster

package cluster

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// A nodeState is what is on the node: what it is, and how many of it.
type nodeState map[string]int

// unsearched are the directories of the cluster, of containerd and of the network,
// which change with any pod, and the one that does not change.
var unsearched = []string{clusterDir, "/run/containerd", "/run/netns", written + "/var/lib/cni", original, wholeProc}

// lookAtNode looks at the mounts, processes and cgroups of the node, and at what was
// written: into /run, which has what was written elsewhere, too, and where the kubelet has its
// plugins.
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
	for _, dir := range []string{"/run", kubeletDir + "/plugins", kubeletDir + "/plugins_registry"} {
		filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			before, elsewhere := strings.CutPrefix(path, written)
			switch {
			case err != nil:
				return nil // it has just gone
			case slices.Contains(unsearched, path):
				return fs.SkipDir
			case before == kubeletDir+"/plugins/kubernetes.io", before == kubeletDir+"/plugins/kubernetes.io/csi":
				return nil // the kubelet's, for all CSI drivers; what is in it is a driver's
			case elsewhere && entry.IsDir() && isDir(original+before):
				return nil // something below it was written
			}
			s["file "+path]++
			return nil
		})
	}
	for _, dir := range driverCgroups() {
		s["cgroup "+dir]++
	}
	return s
}

// settledNode looks at the node when nothing comes or goes there: what the cluster has just
// done may still be going on.
func settledNode(t *testing.T) nodeState {
	t.Helper()
	before := lookAtNode()
	err := harness.Eventually(startLimit, func() error {
		time.Sleep(time.Second)
		now := lookAtNode()
		changes := before.changes(now)
		if before = now; len(changes) > 0 {
			return fmt.Errorf("within a second, on the node:\n%s", strings.Join(changes, "\n"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return before
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
		// An uninstall removes all cgroups of its driver that nothing is in, also those that a
		// daemon of long ago has left, somewhere else on the machine.
		if cgroup := strings.HasPrefix(what, "cgroup "); later[what] == 0 && !cgroup {
			found = append(found, what+": gone")
		}
	}
	slices.Sort(found)
	return found
}
