package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
)

// takeOverTimeout is how long the readers may have to wait for an active that hangs, on a machine
// that has a CPU for everybody.
var takeOverTimeout = 6 * time.Second

// hang stops the active, as a bug that waits for ever would.
func (t *trial) hang(ctx context.Context) error {
	now := t.first
	for range t.rounds {
		stopped := now.process(active)
		progress := make(chan error, 1)
		if err := t.driver.signal(stopped.PID, unix.SIGSTOP); err != nil {
			return err
		}
		watch := stopwatch.Start()
		go func() {
			err := t.readers.progress(ctx, endTimeout)
			took, late := watch.Stop()
			t.report.note("hang            readers were served again after %s ms, and %s ms in which the machine was late", ms(took), ms(late))
			if err == nil && took > takeOverTimeout {
				err = fmt.Errorf("readers were served again after %s ms", ms(took))
			}
			progress <- err
		}()
		next, err := t.driver.awaitBoth(ctx, stopped)
		if err != nil {
			return err
		}
		t.report.tookOver(now, next, "hang")
		if err := <-progress; err != nil {
			t.report.violation("process %d was stopped: %v", stopped.PID, err)
		}
		if err := t.awaitEnd(ctx, stopped); err != nil {
			return fmt.Errorf("the process that was stopped: %w", err)
		}
		now = next
	}
	return nil
}
