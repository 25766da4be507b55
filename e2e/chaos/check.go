package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// endTimeout is how long anything may take at the end, on any machine.
var endTimeout = time.Minute

func (t *trial) checkReaders(ctx context.Context) {
	if err := t.readers.progress(ctx, endTimeout); err != nil {
		t.report.violation("%v", err)
	}
	if err := t.readers.stop(endTimeout); err != nil {
		t.report.violation("%v", err)
	}
}

// checkProcesses demands two processes, with the same descriptors as the first two had.
func (t *trial) checkProcesses(ctx context.Context) {
	err := await(ctx, endTimeout, func() error {
		now, err := t.driver.status()
		if err != nil {
			return err
		}
		return errors.Join(now.complete(), t.onlyTwo(now), t.sameDescriptors(now))
	})
	if err != nil {
		t.report.violation("at the end: %v", err)
	}
}

func (t *trial) onlyTwo(now status) error {
	want := []int{now.pid(active), now.pid(standby)}
	slices.Sort(want)
	if found := t.driver.processes(); !slices.Equal(found, want) {
		return fmt.Errorf("processes %d are the driver's, and status tells of %d", found, want)
	}
	if left := zombies(want); len(left) > 0 {
		return fmt.Errorf("zombies, which the driver does not wait for: %d", left)
	}
	return nil
}

func (t *trial) sameDescriptors(now status) error {
	open, err := now.descriptors()
	if err != nil {
		return err
	}
	for _, r := range []role{active, standby} {
		if len(open[r]) != len(t.opened[r]) {
			err = errors.Join(err, fmt.Errorf("the %s has %d open files, the first had %d: now %q, then %q",
				r, len(open[r]), len(t.opened[r]), open[r], t.opened[r]))
		}
	}
	return err
}

// awaitEnd waits until a process is gone.
func (t *trial) awaitEnd(ctx context.Context, ended daemon) error {
	return await(ctx, endTimeout, func() error {
		if !slices.Contains(t.driver.processes(), ended.PID) {
			return nil
		}
		if now, err := t.driver.status(); err == nil {
			for _, r := range []role{active, standby} {
				if p := now.process(r); p.PID == ended.PID && !p.Started.Equal(ended.Started) {
					return nil // another one has its PID
				}
			}
		}
		return fmt.Errorf("process %d is still there", ended.PID)
	})
}

// checkRemoval removes the volume and the driver; nothing may be left.
func (t *trial) checkRemoval() {
	if err := t.driver.unmount(t.driver.volume); err != nil {
		t.report.violation("%v", err)
	}
	if _, err := t.driver.execute("stop"); err != nil {
		t.report.violation("%v", err)
	}
	if left := t.driver.processes(); len(left) > 0 {
		t.report.violation("processes are left: %d", left)
	}
	if left := t.driver.mounts(); len(left) > 0 {
		t.report.violation("mounts are left: %q", left)
	}
	if left := t.driver.cgroups(); len(left) > 0 {
		t.report.violation("cgroups are left: %q", left)
	}
	if _, err := os.Lstat(t.first.RunDir); !errors.Is(err, os.ErrNotExist) {
		t.report.violation("%s is left (%v)", t.first.RunDir, err)
	}
}

// cgroups returns the cgroups that the driver made for itself, below the roots of the
// hierarchies of cgroup v1 or v2.
func (d *driver) cgroups() (found []string) {
	name := "*" + filepath.Base(d.root) + ".*"
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		dirs, _ := filepath.Glob(filepath.Join(root, name))
		found = append(found, dirs...)
	}
	return found
}

// mounts are the driver's mount points, from the kernel's table: to look at the
// directories could take for ever.
func (d *driver) mounts() (points []string) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if strings.HasPrefix(fields[4], d.root+"/") || slices.Contains(fields, d.name) {
			points = append(points, fields[4])
		}
	}
	return points
}
