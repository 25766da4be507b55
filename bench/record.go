package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// record is a run that has been: to be looked at in other ways, or drawn again.
type record struct {
	Quick   bool
	Machine string
	Figures figures
}

func (b *bench) save() error {
	data, err := json.MarshalIndent(record{b.settings.quick, b.machine, b.figures}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.settings.record, data, 0o644)
}

// again reports on the run that was recorded, and says where another one does not agree
// with it.
func (b *bench) again() error {
	asked := b.settings
	if err := b.recall(asked.record); err != nil {
		return err
	}
	b.settings.docs = asked.docs
	if asked.beside == "" {
		return b.report()
	}
	other := &bench{}
	if err := other.recall(asked.beside); err != nil {
		return err
	}
	return b.agree(os.Stdout, other)
}

// recall is in the place of a run: it has the settings and figures of the one that was
// recorded.
func (b *bench) recall(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if b.settings = full; r.Quick {
		b.settings = quick
	}
	b.machine, b.figures = r.Machine, r.Figures
	return nil
}
