package cgroup

import (
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
	all, _ := reachable(pid)
	for _, h := range all {
		if dir := h.dir(); dir != "" && isOurs(driver, path.Base(h.path)) {
			g = append(g, dir)
		}
	}
	return g
}

// Processes lists the PIDs of the processes in it, each once. Zombies are not listed.
func (g Group) Processes() (pids []int) {
	for _, dir := range g {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // it is gone
		}
		for line := range strings.Lines(string(text)) {
			// 0: in another PID name space.
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// A name ends in the PID of the process that was moved: this tells the cgroup of its children
// from those of its successors.

// scopeName is the name of the scope of a driver's process. Two drivers' names may look alike
// here, but never with the same PID.
func scopeName(driver string, pid int) string {
	return scopesOf(driver) + strconv.Itoa(pid) + scopeSuffix
}

const scopeSuffix = ".scope"

// scopesOf begins the names of a driver's scopes. A unit's name may have letters, digits
// and :-_.\ in it (systemd.unit(5)): of what a driver's name may have, the slash is the only
// other character, and becomes a dash.
func scopesOf(driver string) string { return strings.ReplaceAll(driver, "/", "-") + "-" }

// ownName is the name of the cgroup of a driver's process, in every hierarchy.
func ownName(driver string, pid int) string { return ownOf(driver) + strconv.Itoa(pid) }

// ownOf begins the names of a driver's own cgroups. The slash becomes a tilde, as in the
// kubelet's plugin directory; no driver's name has one.
func ownOf(driver string) string { return strings.ReplaceAll(driver, "/", "~") + "~" }

// isOurs tells whether a cgroup was made for a process of the driver.
func isOurs(driver, name string) bool {
	pid, own := strings.CutPrefix(name, ownOf(driver))
	if scope, ok := strings.CutSuffix(name, scopeSuffix); ok && !own {
		pid, ok = strings.CutPrefix(scope, scopesOf(driver))
		own = ok
	}
	_, err := strconv.ParseUint(pid, 10, 32)
	return own && err == nil
}
