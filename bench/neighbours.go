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
			alone, err := b.runClient(p.victim, 1, b.settings.nextLength, anywhere)
			if err != nil {
				return err
			}
			b.victim(p.system, "alone", alone)
			if err := b.beside(p); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) victim(system, company string, r reading) {
	b.figures.add(besideName(system, company, "p50"), r.P50)
	b.figures.add(besideName(system, company, "p99"), r.P99)
	b.figures.add(besideName(system, company, "rate"), float64(r.Operations)/r.Seconds)
}

// beside measures the victim while the others hammer, and those, too.
func (b *bench) beside(p pair) (err error) {
	const before, after = 100 * time.Millisecond, 100 * time.Millisecond
	hammer := b.clientCommand(p.hammered, hammers, before+b.settings.nextLength+after, anywhere)
	output, err := hammer.StdoutPipe()
	if err != nil {
		return err
	}
	if err := hammer.Start(); err != nil {
		return err
	}
	var hammered reading
	defer func() {
		text, failed := io.ReadAll(output)
		failed = errors.Join(failed, hammer.Wait())
		if failed == nil {
			failed = json.Unmarshal(text, &hammered)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("the hammer: %w", failed))
			return
		}
		b.figures.add(besideName(p.system, "hammers", "rate"), float64(hammered.Operations)/hammered.Seconds)
	}()
	if err := b.sleep(before); err != nil {
		return err
	}
	r, err := b.runClient(p.victim, 1, b.settings.nextLength, anywhere)
	if err == nil {
		b.victim(p.system, "beside", r)
	}
	return err
}
