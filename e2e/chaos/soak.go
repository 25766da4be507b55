package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// soak disturbs the driver in the beginning. Then it leaves the two processes
// alone with their load, and demands that they stay, and do not grow.
func (t *trial) soak(ctx context.Context) error {
	end := time.Now().Add(t.duration)
	volume := t.driver.volumeOf(hammered)
	if err := t.driver.mount(volume); err != nil {
		return err
	}
	h, err := t.startHammer("read", volume)
	if err != nil {
		return errors.Join(err, t.driver.unmount(volume))
	}
	now, err := t.warmUp(ctx)
	if err != nil {
		err = fmt.Errorf("warm-up: %w", err)
	} else {
		err = t.steady(ctx, now, end)
	}
	operations, failed := h.stop()
	t.report.note("hammering       %d operations more, by %d threads of another process", operations, hammerThreads)
	return errors.Join(err, failed, t.driver.unmount(volume))
}

// sampling is how often the processes are looked at.
const sampling = 2 * time.Second

// steady watches the processes until the end.
func (t *trial) steady(ctx context.Context, first status, end time.Time) error {
	taken := map[role]series{}
	for time.Now().Before(end) {
		for _, r := range []role{active, standby} {
			one, err := sampleOf(first.pid(r))
			if err != nil {
				return errors.Join(err, t.undisturbed(first))
			}
			taken[r] = append(taken[r], one)
		}
		if err := t.undisturbed(first); err != nil {
			return err
		}
		if err := sleep(ctx, sampling); err != nil {
			return err
		}
	}
	if n := len(taken[active]); n < 4 {
		return fmt.Errorf("after the warm-up, there was time for %d samples, and each quarter needs one: soak for longer than %v on this machine", n, t.duration)
	}
	t.report.note("steady          %d samples after %d take-overs, and none since", len(taken[active]), first.Daemon.Takeovers)
	t.report.note("                 the least of the first and the last quarter of the time; may grow by")
	for _, r := range []role{active, standby} {
		before, after := taken[r].quarters()
		for i, m := range measures {
			t.report.note("%-15s %-12s %6d %6d %6s", r, m.name, before[i], after[i], m.allowed())
		}
		for _, grown := range growth(before, after) {
			t.report.violation("the %s grew, beside a load that did not: %s", r, grown)
		}
	}
	return nil
}

// undisturbed demands the same processes in the same roles.
func (t *trial) undisturbed(first status) error {
	now, err := t.driver.status()
	if err != nil {
		return err
	}
	takeovers := now.Daemon.Takeovers - first.Daemon.Takeovers
	if now.pid(active) == first.pid(active) && now.pid(standby) == first.pid(standby) && takeovers == 0 {
		return nil
	}
	return fmt.Errorf("the active was process %d and the standby %d, nobody disturbed them, and now they are %d and %d, with %d take-overs, the last %+v; "+
		"if the binary is a strict build, the kernel's log may tell which system call was denied",
		first.pid(active), first.pid(standby), now.pid(active), now.pid(standby), takeovers, now.Daemon.LastTakeover)
}
