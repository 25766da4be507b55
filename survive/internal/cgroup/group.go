package cgroup

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Group is the cgroup into which [Escape] put a process. Only that process and its
// descendants are in it, since none of them can leave. It is a directory in every hierarchy
// that is mounted here.
type Group []string

// GroupOf finds the group of a process of the driver. It is empty when the process is not
// in one.
func GroupOf(driver string, pid int) (g Group) {
	all, _ := hierarchies(pid)
	for _, h := range all {
		if dir := h.dir(); dir != "" && isOwn(driver, path.Base(h.path)) {
			g = append(g, dir)
		}
	}
	return g
}

// Processes lists the PIDs of the processes in it, each once. Zombies are not listed.
func (g Group) Processes() (pids []int) {
	for _, dir := range g {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // none, if it is gone
		for line := range strings.Lines(string(text)) {
			// 0: in another PID name space.
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// ownName is the name of the cgroup of a driver's process, in every hierarchy. It ends in the PID
// of the process that was moved, which tells the cgroup of its children from those of its
// successors. The slash becomes a tilde, as in the kubelet's plugin directory; no driver's name has
// one.
func ownName(driver string, pid int) string {
	return fmt.Sprintf("%s~%d", strings.ReplaceAll(driver, "/", "~"), pid)
}

// isOwn tells whether a cgroup was made for a process of the driver.
func isOwn(driver, name string) bool {
	pid, _ := strconv.Atoi(name[strings.LastIndex(name, "~")+1:]) // any number in a name that is not ours
	return name == ownName(driver, pid)
}
