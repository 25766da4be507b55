package cgroup

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mounts are the hierarchies that this process can reach: their mounts, whole
// from the root on. In a container there may be others, of a part only; a
// cgroup in such a part is still below the container's, and so is no way out.
type mounts []*mountinfo.Info

// readMounts reads the mounts of this process. proc is where proc(5) is.
func readMounts(proc string) (mounts, error) {
	path := filepath.Join(proc, "self", "mountinfo")
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	list, err := mountinfo.GetMountsFromReader(file, func(m *mountinfo.Info) (skip, stop bool) {
		cgroup := m.FSType == "cgroup" || m.FSType == "cgroup2"
		return !cgroup || m.Root != "/", false
	})
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return list, nil
}

// reachable leaves out the mounts that something else is mounted over: their
// path leads elsewhere.
func (list mounts) reachable() mounts {
	var found mounts
	for _, mount := range list {
		var stat unix.Stat_t
		if unix.Stat(mount.Mountpoint, &stat) == nil && stat.Dev == unix.Mkdev(uint32(mount.Major), uint32(mount.Minor)) {
			found = append(found, mount)
		}
	}
	return found
}

// of finds where the hierarchy is mounted, "" when it is not.
func (list mounts) of(m membership) string {
	for _, mount := range list {
		if m.unified() && mount.FSType == "cgroup2" {
			return mount.Mountpoint
		}
		// A v1 hierarchy's controllers, and its name, are options of its mount.
		// A controller is in one hierarchy only, so the first decides.
		if !m.unified() && mount.FSType == "cgroup" && slices.Contains(strings.Split(mount.VFSOptions, ","), m.controllers[0]) {
			return mount.Mountpoint
		}
	}
	return ""
}
