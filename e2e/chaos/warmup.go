package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// warmUpTimeout is how long the disturbed part of a soak may be.
const warmUpTimeout = time.Minute

// warmUp has the processes do whatever they do in their life: each is ended with
// each signal, three times, and there is an upgrade and a way back. It takes a
// sixth of the time. In the second half of that, the last processes that came
// grow to their size.
func (t *trial) warmUp(ctx context.Context) (status, error) {
	began, length := time.Now(), min(t.duration/6, warmUpTimeout)
	now, err := t.endEach(ctx, length/2)
	if err != nil {
		return now, err
	}
	if t.other != "" {
		for _, binary := range []string{t.other, t.binary} {
			if now, err = t.upgradeTo(ctx, now, binary); err != nil {
				return now, err
			}
		}
	}
	return now, sleep(ctx, max(time.Until(began.Add(length)), length/2)) // also where it took longer to end them all
}

// endEach ends the processes, evenly spread over some time.
func (t *trial) endEach(ctx context.Context, length time.Duration) (status, error) {
	now := t.first
	began := time.Now()
	const ends = 12
	for i := range ends {
		victim := []role{active, standby}[i%2]
		signal := []unix.Signal{unix.SIGKILL, unix.SIGTERM}[i/2%2]
		next, err := t.replace(ctx, now, victim, signal)
		if err != nil {
			return now, fmt.Errorf("%v for the %s: %w", signal, victim, err)
		}
		now = next
		if err := sleep(ctx, time.Until(began.Add(length*time.Duration(i+1)/ends))); err != nil {
			return now, err
		}
	}
	return now, nil
}
