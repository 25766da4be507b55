// Package cgroup moves a process out of the cgroup that it was born into.
//
// The daemon is born into the kubelet's cgroup, and service managers end a
// service by killing everything that is in its cgroup: systemd calls this
// KillMode=control-group, the default, and kubeadm's kubelet.service keeps it
// (systemd.kill(5)). So a restart of the kubelet would take all volumes down, unless the
// daemon is moved. It gets a cgroup of its own below the root of each hierarchy; in the cpuset
// hierarchy of v1, it goes to the root. systemd leaves a cgroup alone that is of no unit, which a
// kubelet that makes the cgroups of pods by itself (cgroupDriver: cgroupfs) relies on, too.
//
// The cgroup has limits: of threads ([MaxThreads], or what the caller says), and of memory
// ([MaxMemory]). Active and standby share them. When the memory is used up, the kernel kills the
// larger one and lets the other one be: memory.oom.group is 0 by default ("memory.oom.group" in
// cgroup-v2.rst), and v1 has no such file. A cgroup for each would need root, or a process that
// could move others as well, to move each new standby.
//
// Each process that is moved gets a new cgroup, which only its children share. So [GroupOf]
// finds what a replaced daemon has left.
//
// # Hierarchies
//
// A process is in one cgroup of each hierarchy: one with cgroup v2, one for each group of
// controllers with v1, and a machine may have both. A service manager that kills by cgroup
// looks at one of them, and nothing tells which. So the process leaves its cgroup in all of
// them, except where it is in the root, which is never a service's. It leaves the root, too,
// in a hierarchy that can limit it.
//
// # Traps
//
// Move a process before it starts another one. Children are born into the cgroup of their
// parent, and those born before the move stay behind.
//
// Paths are as this process sees them. In a container, "/" is the container's cgroup, whose
// end ends the process.
//
// A move leaves the limits of the old cgroup behind. Memory that was charged to the old cgroup
// stays charged to it (cgroups(7)).
//
// Nothing here watches the process: if somebody moves it later, it stays there.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// Escape moves the process out of the cgroup that it is in, on behalf of the
// driver, whose name is PROGRAM-vendor/driver, which begins all names here. The process
// must not have children yet. It returns the cgroup that the process is in afterwards, as
// [Of] does, or "" when it is still in the old one, in some hierarchy or in all.
//
// The process, and those that it starts, share limits of threads and memory there, as far
// as that can be had: of so many threads, and of [MaxMemory]. See [LimitsOf].
//
// An error is worth a warning in either case: with a cgroup it says why the process is not limited.
// It is os.ErrProcessDone if the process has ended: the kernel shows it in some cgroup until it is
// reaped, in the root of v1.
func Escape(driver string, pid, most int) (where string, err error) {
	defer func() {
		if ended(pid) {
			where, err = "", fmt.Errorf("move process %d: %w", pid, os.ErrProcessDone)
		}
	}()
	_ = remove(driver, 0) // cgroups of a dead daemon; EBUSY: a daemon lives
	stays, unlimited := toOwn(driver, pid, most)
	if stays != nil {
		return "", fmt.Errorf("process %d stays in the cgroup of the kubelet, and its restart kills it: %w", pid, stays)
	}
	where, err = Of(pid)
	return where, join(unlimited, err)
}

// ended tells whether a process has ended, be it reaped or not. It does not take one for ended
// that /proc does not show, as where that is of another PID namespace.
func ended(pid int) bool {
	status, _ := proc.StatusIn(fmt.Sprintf("/proc/%d", pid))
	return errors.Is(unix.Kill(pid, 0), unix.ESRCH) || strings.HasPrefix(status["State"], "Z")
}

// join is errors.Join on one line, as a log needs it.
func join(list ...error) error {
	var joined error
	for _, err := range list {
		switch {
		case err == nil:
		case joined == nil:
			joined = err
		default:
			joined = fmt.Errorf("%w; %w", joined, err)
		}
	}
	return joined
}

// Of tells the process's cgroup, for people to read. Of a process that is in
// several hierarchies it is the path in the unified one (cgroup v2), else in
// systemd's of v1, else in the first that has one; a hierarchy that leaves
// the process in its root counts only if all of them do. Linux lists the unified
// hierarchy also where nobody uses it (cgroups(7)).
func Of(pid int) (string, error) {
	all, err := hierarchies(pid)
	if err != nil {
		return "", err
	}
	return of(all), nil
}

func of(all []hierarchy) string {
	// The hierarchies that service managers use tell most.
	for _, kind := range []string{"unified", "name=systemd", "name=", ""} {
		for _, h := range all {
			if !h.inRoot() && strings.HasPrefix(h.String(), kind) {
				return h.path
			}
		}
	}
	return "/"
}
