package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// lossy has the active die after it has read a request and before it answers.
// In a build with -tags lossy, the file die asks for that.
func (t *trial) lossy(ctx context.Context) error {
	now := t.first
	die := filepath.Join(now.RunDir, "die")
	for range t.rounds {
		if err := os.WriteFile(die, nil, 0o666); err != nil {
			return err
		}
		err := await(ctx, recovery, func() error {
			if _, err := os.Lstat(die); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s is there: the driver is not built with -tags lossy, or cannot remove it (%v)", die, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		next, err := t.driver.awaitBoth(ctx, now.pid(active))
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
