package main

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// kill kills processes, evenly spread over the duration. It waits for the
// second process before it kills one: nothing survives the loss of both.
func (t *trial) kill(ctx context.Context) error {
	random := rand.New(rand.NewPCG(t.seed, 0))
	killed := map[role]int{}
	defer func() {
		t.report.note("kills           %d: %d of the active, %d of the standby", killed[active]+killed[standby], killed[active], killed[standby])
	}()
	began := time.Now()
	now := t.first
	for i := range t.kills {
		due := began.Add(t.duration * time.Duration(i) / time.Duration(t.kills))
		if err := sleep(ctx, time.Until(due)); err != nil {
			return err
		}
		victim := []role{active, standby}[random.IntN(2)]
		next, err := t.replace(ctx, now, victim, unix.SIGKILL)
		if err != nil {
			return err
		}
		killed[victim]++
		now = next
	}
	return sleep(ctx, time.Until(began.Add(t.duration)))
}

// replace sends a signal to the process in a role and waits until there are
// two processes again, without that one.
func (t *trial) replace(ctx context.Context, now status, victim role, signal unix.Signal) (status, error) {
	t.readers.replacements.beginOrEnd()
	defer t.readers.replacements.beginOrEnd()
	began := time.Now()
	if err := t.driver.signal(now.pid(victim), signal); err != nil {
		return now, err
	}
	next, err := t.driver.awaitBoth(ctx, now.process(victim))
	if err != nil {
		return now, err
	}
	t.report.recovered(time.Since(began))
	cause := map[unix.Signal]string{unix.SIGKILL: "crash", unix.SIGTERM: "planned"}[signal]
	switch {
	case victim == active:
		t.report.tookOver(now, next, cause)
	case next.Daemon.Takeovers != now.Daemon.Takeovers:
		t.report.violation("the standby was sent %v, and there was a take-over: %+v", signal, next.Daemon.LastTakeover)
	}
	return next, nil
}
