package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// pair are the files of two pods, in the volumes of one system.
type pair struct{ system, victim, hammered string }

// hammers is how many threads hammer: more than anything serves at a time, by far.
const hammers = 32

// neighbours measures how long the one reader of a file waits, alone and while another
// pod hammers on its volume.
func (b *bench) neighbours(pairs ...pair) error {
	return b.rounds(b.settings.nextRounds, func() error {
		for _, p := range pairs {
			reader := task{file: p.victim, threads: 1, cpu: anywhere}
			hammer := task{file: p.hammered, threads: hammers, cpu: anywhere}
			if err := b.victim(p.system, reader, hammer); err != nil {
				return err
			}
		}
		return nil
	})
}

// victim measures a reader alone, and beside others, and those, too.
func (b *bench) victim(name string, reader, others task) error {
	alone, err := reader.run(b, b.settings.nextLength)
	if err != nil {
		return err
	}
	beside, theirs, err := b.beside(reader, others)
	if err != nil {
		return err
	}
	for company, r := range map[string]reading{"alone": alone, "beside": beside, "others": theirs} {
		b.figures.add(besideName(name, company, "p50"), r.P50)
		b.figures.add(besideName(name, company, "p99"), r.P99)
		b.figures.add(besideName(name, company, "rate"), float64(r.Operations)/r.Seconds)
	}
	return nil
}

func (b *bench) beside(reader, others task) (victim, theirs reading, err error) {
	const before, after = 100 * time.Millisecond, 100 * time.Millisecond
	busy := others.command(b, before+b.settings.nextLength+after)
	output, err := busy.StdoutPipe()
	if err != nil {
		return victim, theirs, err
	}
	if err := busy.Start(); err != nil {
		return victim, theirs, err
	}
	err = b.sleep(before)
	if err == nil {
		victim, err = reader.run(b, b.settings.nextLength)
	}
	text, failed := io.ReadAll(output)
	failed = errors.Join(failed, busy.Wait())
	if failed == nil {
		failed = json.Unmarshal(text, &theirs)
	}
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("the others: %w", failed))
	}
	return victim, theirs, err
}
