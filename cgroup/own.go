package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// toOwn moves the process into the driver's own cgroup in every hierarchy where
// it is not in the root. It tries all of them, and the error names each in which
// the process stays where it is.
func toOwn(driver string, pid int) error {
	list, err := memberships(procRoot, pid)
	if err != nil {
		return fmt.Errorf("find the cgroups of process %d: %w", pid, err)
	}
	mounted, err := readMounts(procRoot)
	if err != nil {
		return fmt.Errorf("find where cgroups are mounted: %w", err)
	}
	mounted = mounted.reachable()
	var failed []error
	for _, m := range list {
		if m.inRoot() {
			continue
		}
		if err := move(pid, mounted.of(m), ownName(driver), m); err != nil {
			failed = append(failed, fmt.Errorf("leave %s of cgroup hierarchy %s: %w", m.path, m, err))
		}
	}
	return join(failed...)
}

// move writes the process into a cgroup below the root of the hierarchy that is
// mounted at root. A process is moved as a whole, with all its threads, by its
// PID in cgroup.procs: cgroups(7), and "Processes" in cgroup-v2.rst.
func move(pid int, root, name string, m membership) error {
	if root == "" {
		return errors.New("it is not mounted here from its root on; mount it where the kubelet runs")
	}
	group := filepath.Join(root, name)
	if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return advise(err)
	}
	if slices.Contains(m.controllers, "cpuset") {
		if err := inherit(root, group); err != nil {
			return advise(err)
		}
	}
	return advise(write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(pid)))
}

// inherit gives a new cpuset cgroup its parent's CPUs and memory nodes. In v1,
// it has none at first, and takes no process without ("Usage Examples and
// Syntax" in cgroup-v1/cpusets.rst).
func inherit(parent, group string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return err
		}
		if err := write(filepath.Join(group, name), string(value)); err != nil {
			return err
		}
	}
	return nil
}

// write writes to a file that must be there: only the kernel makes files in a
// cgroup, and os.WriteFile would make one in what is not a cgroup.
func write(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return join(err, file.Close())
}

// advise says what to do about errors that have one cause in practice.
func advise(err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w; mount the hierarchy writable where the kubelet runs", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; the kubelet must run as root of the host", err)
	}
	return err
}
