package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"text/tabwriter"
)

//go:embed expected.json
var expectedFile []byte

// expectation is what a figure was when somebody looked at it last, and by which share
// of that it may be more.
type expectation struct {
	Figure   string
	Expected float64
	Margin   float64
}

// check measures what is the same on any machine, and compares it with what is expected.
func (b *bench) check() error {
	var all []expectation
	decoder := json.NewDecoder(bytes.NewReader(expectedFile))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		return fmt.Errorf("expected.json: %w", err)
	}
	if err := b.with(b.ladder); err != nil {
		return err
	}
	if err := b.with(b.perOperation); err != nil {
		return err
	}
	if err := b.twoDoors(); err != nil {
		return err
	}
	b.derive()
	return b.compare(all)
}

// derive gives the figures that are compared the names by which they are expected.
func (b *bench) derive() {
	f := b.figures
	for _, level := range b.settings.levels {
		f[fmt.Sprintf("KiB at %s, after a load", count(level, "volume"))] = f[memoryName(level, "idle", "uss")]
	}
	f["KiB of the CSI plugin, anonymous"] = f["memory/plugin/anonymous"]
	for _, file := range files {
		f["replies "+file] = f[readName("driver "+file, 1, true, "replies")]
		// What else the machine does can only add some: the least of the rounds counts.
		f["waits "+file] = series{f[readName("driver "+file, 1, true, "waits")].quantile(0)}
	}
}

// compare prints what was expected and measured, and fails for what is worse.
func (b *bench) compare(all []expectation) error {
	var worse error
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "figure, of one operation if it is of a file\texpected\tat most\tmeasured\t")
	for _, e := range all {
		now, most, verdict := b.figures[e.Figure].median(), e.Expected*(1+e.Margin), "ok"
		switch {
		case math.IsNaN(now) || now > most:
			verdict = "WORSE"
			worse = errors.Join(worse, fmt.Errorf("%s: %.2f, at most %.2f", e.Figure, now, most))
		case now < e.Expected*(1-e.Margin):
			verdict = "better: expected.json can say so"
		}
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%s\n", e.Figure, e.Expected, most, now, verdict)
	}
	return errors.Join(table.Flush(), worse)
}
