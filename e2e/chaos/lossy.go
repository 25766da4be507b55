package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// lossy has the active die after it has read a request and before it answers.
// In the build "lossy" of e2e/builds, the process whose PID is in the file die does
// that. It may only read the file: it is this program that removes it.
func (t *trial) lossy(ctx context.Context) error {
	now := t.first
	die := filepath.Join(now.RunDir, "die")
	for range t.rounds {
		victim := now.process(active)
		if err := os.WriteFile(die, fmt.Appendln(nil, victim.PID), 0o644); err != nil {
			return err
		}
		err := t.awaitEnd(ctx, victim)
		if err != nil {
			err = fmt.Errorf("the process that is to lose a request: %w; is the driver the build \"lossy\" of e2e/builds?", err)
		}
		if err := errors.Join(err, os.Remove(die)); err != nil {
			return err
		}
		next, err := t.driver.awaitBoth(ctx, victim)
		if err != nil {
			return err
		}
		t.report.tookOver(now, next, "crash")
		now = next
	}
	t.report.note("losses          %d", t.rounds)
	// The kernel gives up what was lost, or it was not lost.
	if t.eintrAllowed && t.report.interruptions() == 0 {
		t.report.violation("no reader saw EINTR: nothing was lost")
	}
	return nil
}
