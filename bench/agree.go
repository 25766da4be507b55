package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// agree prints the ratios of this run and another one that do not agree, and how many
// do. They agree when the spreads that are printed have a value in common.
func (b *bench) agree(w io.Writer, other *bench) error {
	theirs := map[string]series{}
	for _, s := range other.sections() {
		for _, r := range s.rows {
			theirs[s.title+": "+r.what] = r.ratios
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "what does not agree\tthis run\tthe other\t")
	all, agree := 0, 0
	for _, s := range b.sections() {
		for _, r := range s.rows {
			there := theirs[s.title+": "+r.what]
			if len(r.ratios) == 0 || len(there) == 0 {
				continue
			}
			all++
			if r.ratios.overlaps(there) {
				agree++
				continue
			}
			fmt.Fprintf(table, "%s: %s\t%s\t%s\t\n", s.title, r.what, spread(r.ratios), spread(there))
		}
	}
	fmt.Fprintf(table, "%d of %d ratios agree\t\t\t\n", agree, all)
	return table.Flush()
}

// overlaps tells whether the spreads of two series, as they are printed, have a value in
// common.
func (s series) overlaps(other series) bool {
	low, top := s.spread()
	otherLow, otherTop := other.spread()
	hundredths := func(v float64) float64 { return math.Round(v * 100) }
	return hundredths(low) <= hundredths(otherTop) && hundredths(otherLow) <= hundredths(top)
}
