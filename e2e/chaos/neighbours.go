package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// company lists the loads beside a reader, and what each does without pause. All volumes of a
// node share one queue of requests, and one daemon.
var company = []struct{ name, how string }{
	{"nobody", ""},
	{"32 threads that read", "read"},
	{"32 threads that list", "list"},
	{"32 threads elsewhere", "elsewhere"},
}

// turns is how often each of them has its turn.
const turns = 4

// neighbours measures how long a reader of pod waits when another pod hammers on
// its own volume. It is no test: what is too long is not for a program to say.
func (t *trial) neighbours(ctx context.Context) error {
	volume := t.driver.volumeOf(hammered)
	if err := t.driver.mount(volume); err != nil {
		return err
	}
	length := t.duration / time.Duration(turns*len(company))
	taken := make([][]latency, len(company))
	// A machine is faster at some times than at others: everybody has a turn in
	// each of them.
	for range turns {
		for i, them := range company {
			l, err := t.beside(ctx, them.how, volume, length)
			if err != nil {
				return errors.Join(fmt.Errorf("beside %s: %w", them.name, err), t.driver.unmount(volume))
			}
			taken[i] = append(taken[i], l)
		}
	}
	t.report.note("%s", latencyTable(taken))
	return t.driver.unmount(volume)
}

// under is how long a process may take until it hammers with all its threads.
const under = 100 * time.Millisecond

// beside measures beside one kind of company.
func (t *trial) beside(ctx context.Context, how, volume string, length time.Duration) (l latency, err error) {
	if how != "" {
		h, err := t.startHammer(how, volume)
		if err != nil {
			return l, err
		}
		defer func() {
			_, failed := h.stop()
			err = errors.Join(err, failed)
		}()
		if err := sleep(ctx, under); err != nil {
			return l, err
		}
	}
	// The daemon is asked for pod every time.
	return latencyOf(ctx, fileOperation(t.driver.volume, "pod"), length)
}
