//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// leftProcesses kills the processes that the node left behind, and tells which.
// Shims take a moment to end after their container has.
func (n *node) leftProcesses() error {
	left := func() error {
		var errs []error
		for _, pid := range n.processes() {
			commandLine, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			errs = append(errs, fmt.Errorf("left process %d: %s", pid, bytes.ReplaceAll(commandLine, []byte{0}, []byte{' '})))
		}
		return errors.Join(errs...)
	}
	err := eventually(10*time.Second, left)
	if err == nil {
		return nil
	}
	for _, pid := range n.processes() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return errors.Join(err, eventually(10*time.Second, left))
}

// processes are the pids of all processes that come from this node: servers and
// shims have inherited startProcess's environment variable, the driver's daemon
// may have dropped it but runs a file in the node's directory. What containers
// run is not among them; it ends with its shim.
func (n *node) processes() []int {
	var found []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		environment, _ := os.ReadFile(filepath.Join(dir, "environ"))
		executable, _ := os.Readlink(filepath.Join(dir, "exe"))
		if slices.Contains(strings.Split(string(environment), "\x00"), n.environment()) ||
			strings.HasPrefix(executable, n.dir+"/") {
			found = append(found, pid)
		}
	}
	return found
}

// leftMounts detaches the mounts that are left below a directory, and tells
// which. It must: the directory is removed next, and not what is mounted in it.
func leftMounts(dir string) error {
	left, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	var errs []error
	// The newest first: they are on top of the others.
	for _, point := range slices.Backward(left) {
		errs = append(errs, fmt.Errorf("left mount: %s", point))
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("detach %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a directory, but nothing through a mount that is left in it.
func removeTree(dir string) error {
	err := leftMounts(dir)
	if still, _ := mountsBelow(dir); len(still) == 0 {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// leftCgroups tells what is left of a cgroup that the driver made for its daemon,
// in whichever hierarchies the machine has. systemd takes a moment to remove a
// scope.
func leftCgroups(path string) error {
	if !strings.HasPrefix(filepath.Base(path), "pod-info-fuse-") {
		return nil // the daemon was in a cgroup that others made, or in none
	}
	return eventually(10*time.Second, func() error {
		for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			left, err := filepath.Glob(filepath.Join(hierarchy, path))
			if err != nil {
				return err
			}
			if len(left) > 0 {
				return fmt.Errorf("left cgroups: %s", strings.Join(left, " "))
			}
		}
		return nil
	})
}

// mountsBelow are the mount points below a directory, from the kernel's table: a
// mount whose server hangs or is dead must not be looked at.
func mountsBelow(dir string) ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		// None of the paths here have characters that the kernel would escape.
		fields := strings.Fields(line)
		if point := fields[4]; point == dir || strings.HasPrefix(point, dir+"/") {
			found = append(found, point)
		}
	}
	return found, nil
}
