package harness

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// MountsBelow are the mount points below a directory, from the kernel's table: a
// mount whose server hangs or is dead must not be looked at.
func MountsBelow(dir string) ([]string, error) {
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

// leftMounts detaches the mounts that are left below a directory, and tells
// which. It must: the directory is removed next, and not what is mounted in it.
func leftMounts(dir string) error {
	left, err := MountsBelow(dir)
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

// RemoveTree removes a directory, but nothing through a mount that is left in it.
func RemoveTree(dir string) error {
	err := leftMounts(dir)
	if still, _ := MountsBelow(dir); len(still) == 0 {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}
