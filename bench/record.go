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

// again reports on the run that was recorded, with its settings and figures.
func (b *bench) again() error {
	asked := b.settings
	data, err := os.ReadFile(asked.record)
	if err != nil {
		return err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%s: %w", asked.record, err)
	}
	if b.settings = full; r.Quick {
		b.settings = quick
	}
	b.settings.docs, b.machine, b.figures = asked.docs, r.Machine, r.Figures
	return b.report()
}
