package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// agree prints the ratios of this run and another one that do not agree, and how many
// do. They agree when the half of the rounds in the middle of the one, which is the
// spread that is printed, has a value in common with that of the other.
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

// overlaps tells whether the quartiles of two series have a value between them in
// common.
func (s series) overlaps(other series) bool {
	return s.quantile(0.25) <= other.quantile(0.75) && other.quantile(0.25) <= s.quantile(0.75)
}
