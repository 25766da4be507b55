package main

import "fmt"

// target is a file of a server.
type target struct {
	server *server
	file   string
}

// name is a target's name in figures.
func (t target) name() string { return t.server.name + " " + t.file }

// reads measures every target in every round, with each number of threads.
func (b *bench) reads(targets []target) error {
	cpu, err := oneCPU()
	if err != nil {
		return err
	}
	return b.rounds(b.settings.readRounds, func() error {
		for _, pinned := range []bool{true, false} {
			where := anywhere
			if pinned {
				where = cpu
			}
			for _, t := range targets {
				if err := place(t.server.pids, where); err != nil {
					return err
				}
			}
			for _, threads := range b.settings.threads {
				for _, t := range targets {
					if err := b.read(t, threads, where); err != nil {
						return fmt.Errorf("%s: %w", t.name(), err)
					}
				}
			}
		}
		return nil
	})
}

// read measures one target.
func (b *bench) read(t target, threads, cpu int) error {
	before, err := countersOf(t.server.pids)
	if err != nil {
		return err
	}
	r, err := b.runClient(t.server.files[t.file], threads, b.settings.readLength, cpu)
	if err != nil {
		return err
	}
	after, err := countersOf(t.server.pids)
	if err != nil {
		return err
	}
	n := float64(r.Operations)
	for measure, value := range map[string]float64{
		"rate": n / r.Seconds, "p50": r.P50, "p99": r.P99,
		"cpu":      (after.cpu - before.cpu) / n,
		"replies":  float64(after.replies-before.replies) / n,
		"waits":    float64(after.waits-before.waits+r.Waits) / n,
		"switches": float64(after.switches-before.switches+r.Switches) / n,
	} {
		b.figures.add(readName(t.name(), threads, cpu != anywhere, measure), value)
	}
	return nil
}
