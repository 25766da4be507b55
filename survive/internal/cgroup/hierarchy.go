package cgroup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// hierarchy is a hierarchy of cgroups, and a process's cgroup in it: a line of
// /proc/PID/cgroup.
type hierarchy struct {
	// controllers are those of a v1 hierarchy, or its name as "name=NAME".
	// The unified hierarchy, v2, has none.
	controllers []string
	// path is that of the process's cgroup, below the root of our cgroup name space.
	path string
	// root is the mount point that shows the hierarchy from its root on, "" for none. In a
	// container, a part of it may be mounted: a cgroup in that part is still below the
	// container's, and so is no way out.
	root string
}

// unified tells whether the hierarchy is that of cgroup v2.
func (h hierarchy) unified() bool { return len(h.controllers) == 0 }

// inRoot tells whether the process is in the hierarchy's root.
func (h hierarchy) inRoot() bool { return h.path == "/" }

// dir is the directory of the process's cgroup, "" where it is not mounted here.
func (h hierarchy) dir() string {
	if h.root == "" || strings.HasPrefix(h.path, "/..") { // outside of our name space
		return ""
	}
	return filepath.Join(h.root, h.path)
}

// String names the hierarchy.
func (h hierarchy) String() string {
	if h.unified() {
		return "unified"
	}
	return strings.Join(h.controllers, ",")
}

// hierarchies lists all hierarchies that there are, mounted or not, with the process's
// cgroups in them. Mounts that this process cannot reach do not count.
func hierarchies(pid int) ([]hierarchy, error) {
	path := fmt.Sprintf("/proc/%d/cgroup", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, err
	}
	all, err := parse(string(text), slices.DeleteFunc(mounts, isCovered))
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return all, nil
}

// parse reads lines "ID:CONTROLLERS:PATH", which cgroups(7) describes. The path
// may have colons in it.
func parse(text string, mounts []*mountinfo.Info) (all []hierarchy, err error) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			return nil, fmt.Errorf("line %q is not of the form ID:CONTROLLERS:PATH", line)
		}
		h := hierarchy{path: fields[2]}
		if fields[1] != "" {
			h.controllers = strings.Split(fields[1], ",")
		}
		if at := slices.IndexFunc(mounts, h.isMountedBy); at >= 0 {
			h.root = mounts[at].Mountpoint
		}
		all = append(all, h)
	}
	return all, nil
}

// isMountedBy tells whether a mount shows the hierarchy from its root on. A v1 hierarchy's
// controllers, and its name, are options of its mount. A controller is in one hierarchy only,
// so the first decides.
func (h hierarchy) isMountedBy(m *mountinfo.Info) bool {
	if h.unified() {
		return m.Root == "/" && m.FSType == "cgroup2"
	}
	return m.Root == "/" && m.FSType == "cgroup" && slices.Contains(strings.Split(m.VFSOptions, ","), h.controllers[0])
}

// isCovered tells whether a mount's path does not lead to it: another mount is on the way.
func isCovered(m *mountinfo.Info) bool {
	var stat unix.Stat_t
	return unix.Stat(m.Mountpoint, &stat) != nil || stat.Dev != unix.Mkdev(uint32(m.Major), uint32(m.Minor))
}
