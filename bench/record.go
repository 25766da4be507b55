package main

import (
	"encoding/json"
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

// again reports on the run that was recorded.
func (b *bench) again() error {
	data, err := os.ReadFile(b.settings.record)
	if err != nil {
		return err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	docs := b.settings.docs
	if b.settings = full; r.Quick {
		b.settings = quick
	}
	b.settings.docs, b.machine, b.figures = docs, r.Machine, r.Figures
	return b.report()
}
