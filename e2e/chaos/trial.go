package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/pod-info-fuse/e2e/nodeplugin"
)

// A trial is one run: one driver with one volume, its readers, and what was seen.
type trial struct {
	settings
	report  *report
	driver  *driver
	readers readers
	first   status               // when the readers began
	opened  map[role]descriptors // of the processes of first

	plugin       *nodeplugin.Plugin // nil: there is no second door
	flex, second door
}

func newTrial(s settings) *trial {
	t := &trial{settings: s, report: newReport(s)}
	if s.verb == "soak" {
		t.flex, t.second = doorOf("FlexVolume"), doorOf("CSI")
	}
	return t
}

// run runs the trial from the installation to the last trace of it.
func (t *trial) run(ctx context.Context) {
	var err error
	if t.driver, err = install(t.program, t.binary); err != nil {
		t.report.violation("install the driver: %v", err)
		return
	}
	defer t.cleanUp()
	t.report.look = (&evidence{driver: t.driver}).look
	if err := t.prepare(ctx); err != nil {
		t.report.violation("%v", err)
		return
	}
	t.readers = startReaders(t.load(), t.report)
	if err := verbs[t.verb].do(t, ctx); err != nil {
		t.report.violation("%s: %v", t.verb, err)
	}
	t.checkReaders(ctx)
	t.report.reading(t.readers)
	t.checkPlugin()
	t.checkProcesses(ctx)
	t.checkRemoval()
}

// settledInterval is for how long nothing is opened or closed by processes that have closed what
// they needed for their start.
const settledInterval = time.Second

// prepare mounts the volume and notes what the processes have open.
func (t *trial) prepare(ctx context.Context) error {
	if err := t.driver.mount(t.driver.volume); err != nil {
		return err
	}
	var err error
	if t.first, err = t.driver.awaitBoth(ctx, nobody); err != nil {
		return err
	}
	if t.opened, err = t.settle(ctx); err != nil {
		return err
	}
	return t.startPlugin(ctx)
}

// settle waits until the first processes have what they keep open.
func (t *trial) settle(ctx context.Context) (open map[role]descriptors, err error) {
	err = await(ctx, endTimeout, func() error {
		before, err := t.first.descriptors()
		if err != nil {
			return err
		}
		if err := sleep(ctx, settledInterval); err != nil {
			return err
		}
		if open, err = t.first.descriptors(); err == nil && !maps.EqualFunc(before, open, slices.Equal) {
			err = fmt.Errorf("what is open changes: %q, then %q", before, open)
		}
		return err
	})
	return open, err
}

// sleep waits, unless the program is told to end.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case <-time.After(d):
		return nil
	}
}

// await looks at something every now and then until it is as it should be, and
// returns what was wrong with it last when the limit is over.
func await(ctx context.Context, limit time.Duration, look func() error) error {
	for deadline := time.Now().Add(limit); ; {
		err := look()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v: %w", limit, err)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
