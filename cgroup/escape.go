package cgroup

import (
	"context"
	"errors"
	"fmt"
)

// Escape moves the process out of the cgroup that it is in, on behalf of the
// driver, whose name is vendor/driver. The process must not have children yet.
// It returns the cgroup that the process is in afterwards, as [Of] does, or ""
// when it is still in the old one, in some hierarchy or in all.
//
// An error is worth a warning in either case: with a cgroup it says why the
// process is not in a scope of systemd although systemd runs. The context limits
// the time that systemd may take, and so does a limit of five seconds.
func Escape(ctx context.Context, driver string, pid int) (where string, err error) {
	refused := toScope(ctx, driver, pid)
	if refused != nil {
		if err := toOwn(driver, pid); err != nil {
			return "", fmt.Errorf("process %d stays in the cgroup of the kubelet, and its restart kills it: %w", pid, join(ignoreAbsent(refused), err))
		}
	}
	where, err = Of(pid)
	return where, join(ignoreAbsent(refused), err)
}

// ignoreAbsent drops the error that says that no systemd runs: on such a
// machine, that is nothing to report.
func ignoreAbsent(err error) error {
	if errors.Is(err, errNoSystemd) {
		return nil
	}
	return err
}
