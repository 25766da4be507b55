package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// emptying is how long the kernel may take to free a cgroup whose last process
// was killed: a process leaves its cgroup late in its exit.
const emptying = time.Second

// Remove removes the driver's own cgroups, which [Escape] made where there was
// no systemd, in all hierarchies. No process may be in them any more. It is
// not an error when there are none; systemd removes its scopes itself.
func Remove(driver string) error {
	mounted, err := readMounts(procRoot)
	if err != nil {
		return fmt.Errorf("find where cgroups are mounted: %w", err)
	}
	mounted = mounted.reachable()
	var failed []error
	deadline := time.Now().Add(emptying)
	for _, mount := range mounted {
		failed = append(failed, removeBy(deadline, filepath.Join(mount.Mountpoint, ownName(driver))))
	}
	return join(failed...)
}

func removeBy(deadline time.Time, group string) error {
	// On a read-only mount, rmdir(2) does not say whether there is anything.
	if _, err := os.Lstat(group); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for {
		err := unix.Rmdir(group)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, unix.EBUSY) && time.Now().Before(deadline):
			time.Sleep(5 * time.Millisecond)
		default:
			return advise(&fs.PathError{Op: "remove cgroup", Path: group, Err: err})
		}
	}
}
