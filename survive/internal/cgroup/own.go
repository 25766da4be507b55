package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// toOwn moves the process into a cgroup of its own, limited, also to so many threads, in every
// hierarchy where it is not in the root, and in those that can limit it. It tries all of them.
// stays names each hierarchy in which it was to move and did not; warning, other failures.
func toOwn(driver string, pid, most int) (stays, warning error) {
	all, err := hierarchies(pid)
	if err != nil {
		return err, nil
	}
	name := ownName(driver, pid)
	var failed, unlimited []error
	for _, h := range all {
		limits := h.limits(most)
		if h.inRoot() && len(limits) == 0 {
			continue
		}
		switch err := advise(h.move(pid, name)); {
		case err == nil:
			unlimited = append(unlimited, h.limit(filepath.Join(h.root, name), limits))
		case h.inRoot():
			unlimited = append(unlimited, fmt.Errorf("limit it in cgroup hierarchy %s: %w", h, err))
		default:
			failed = append(failed, fmt.Errorf("leave %s of cgroup hierarchy %s: %w", h.path, h, err))
		}
	}
	return join(failed...), join(unlimited...)
}

// move writes the process into a cgroup below the hierarchy's root, or into the root. cgroup.procs
// moves a process with all its threads: cgroups(7), and "Processes" in cgroup-v2.rst.
func (h hierarchy) move(pid int, name string) error {
	if h.root == "" {
		return errors.New("it is not mounted here from its root on; mount it where the kubelet runs")
	}
	group := h.root
	// In v1, a new cgroup of a cpuset has no CPUs, and takes no process without ("Usage Examples
	// and Syntax" in cgroup-v1/cpusets.rst). The root has all, and is never a service's.
	if !slices.Contains(h.controllers, "cpuset") {
		group = filepath.Join(h.root, name)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(pid))
}

// write writes to a file that must be there: only the kernel makes files in a cgroup, and
// os.WriteFile would make one in any other directory.
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

// emptying is how long the kernel may take to free a cgroup whose last process
// was killed: a process leaves its cgroup late in its exit, and a busy node may not let it run.
const emptying = 5 * time.Second

// Remove removes the driver's own cgroups, which [Escape] made, in all hierarchies. No process may
// be in them any more, but for one that is ending. It is not an error when there are none.
func Remove(driver string) error { return remove(driver, emptying) }

// remove waits for processes that are ending until the limit.
func remove(driver string, limit time.Duration) error {
	all, err := hierarchies(os.Getpid())
	deadline := time.Now().Add(limit)
	for _, h := range all {
		names, _ := os.ReadDir(h.root) // none, where it is not mounted
		for _, name := range names {
			if !isOwn(driver, name.Name()) {
				continue
			}
			group := filepath.Join(h.root, name.Name())
			failed := unix.Rmdir(group)
			for ; errors.Is(failed, unix.EBUSY) && time.Now().Before(deadline); failed = unix.Rmdir(group) {
				time.Sleep(5 * time.Millisecond)
			}
			if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
				err = join(err, advise(&fs.PathError{Op: "remove cgroup", Path: group, Err: failed}))
			}
		}
	}
	return err
}
