package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"example.com/pod-info-fuse/e2e/internal/steady"
)

// soak disturbs the driver in the beginning. Then it leaves the two processes
// alone with their load, and demands that they stay, and do not grow.
func (t *trial) soak(ctx context.Context) error {
	end := time.Now().Add(t.duration)
	volume := t.driver.volumeOf(hammered)
	if err := t.driver.mount(volume); err != nil {
		return err
	}
	h, err := t.startHammer(volume)
	if err != nil {
		return errors.Join(err, t.driver.unmount(volume))
	}
	stop := func() error {
		if h == nil {
			return nil
		}
		operations, err := h.stop()
		t.report.note("hammering       %d operations more, by %d threads of another process", operations, hammerThreads)
		h = nil
		return err
	}
	now, err := t.warmUp(ctx)
	if err != nil {
		err = fmt.Errorf("warm-up: %w", err)
	} else if t.pause > 0 { // how long readers wait is to be up to the driver from now on, and not to each other
		t.readers.pause.Store(int64(t.pause))
		err = stop()
	}
	if err == nil {
		err = t.steady(ctx, now, end)
	}
	return errors.Join(err, stop(), t.driver.unmount(volume))
}

// steady watches the processes until the end.
func (t *trial) steady(ctx context.Context, first status, end time.Time) error {
	w := steady.Watch{
		Processes:   []steady.Process{{Name: "pod-info-fuse, active", PID: first.pid(active)}, {Name: "pod-info-fuse, standby", PID: first.pid(standby)}},
		Times:       t.flex.times(),
		Undisturbed: func() error { return t.undisturbed(first) },
	}
	if t.plugin != nil {
		w.Processes = append(w.Processes, steady.Process{Name: "pod-info-fuse-csi", PID: t.plugin.PID()})
		w.Times = append(w.Times, t.second.times()...)
	}
	var err error
	if w.Lines, err = t.lines(); err != nil {
		return err
	}
	if err := w.Until(ctx, end, steady.Every(t.duration)); err != nil {
		return err
	}
	t.report.note("steady          after %d take-overs, and none since", first.Daemon.Takeovers)
	for _, line := range w.Table() {
		t.report.note("%s", line)
	}
	for _, grown := range w.Grown() {
		t.report.violation("beside a load that did not grow, %s", grown)
	}
	return nil
}

// lines is the file for what was seen, or nothing. It is closed when the program ends.
func (t *trial) lines() (io.Writer, error) {
	if t.samples == "" {
		return nil, nil
	}
	return os.Create(t.samples)
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
