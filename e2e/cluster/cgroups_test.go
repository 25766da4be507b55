//go:build cluster

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// hierarchies are the root directories of this machine's cgroups.
func hierarchies() []string {
	const top = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(top, "cgroup.procs")); err == nil {
		return []string{top}
	}
	files, _ := filepath.Glob(filepath.Join(top, "*/cgroup.procs"))
	var roots []string
	for _, file := range files {
		root := filepath.Dir(file)
		// Some have links to them: cpu to cpu,cpuacct.
		if info, err := os.Lstat(root); err == nil && info.IsDir() {
			roots = append(roots, root)
		}
	}
	return roots
}

// makeCgroups makes the cgroups that those of pods are made in.
func makeCgroups(name string) error {
	for _, root := range hierarchies() {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroups removes cgroups, of which nothing runs any more.
func removeCgroups(name string) error {
	var errs []error
	for _, root := range hierarchies() {
		var dirs []string
		filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			errs = append(errs, os.Remove(dir))
		}
	}
	return errors.Join(errs...)
}

// driverCgroups are those that the driver has made for its daemon.
func driverCgroups() []string {
	var dirs []string
	for _, root := range hierarchies() {
		found, _ := filepath.Glob(filepath.Join(root, "pod-info-fuse-"+harness.Escaped(driverName)))
		dirs = append(dirs, found...)
	}
	return dirs
}
