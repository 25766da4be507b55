package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A section is a part of the table.
type section struct {
	title, plot, text string
	head              [4]string // what the columns are
	rows              []row
}

// A row has a figure of the driver, the one that it is compared with, and the ratio.
type row struct {
	what, ours, theirs, ratio, goal string

	detail bool // the row is printed, but is not in the document
}

// detailIf returns the row, which is a detail if a condition holds.
func (r row) detailIf(condition bool) row {
	r.detail = condition
	return r
}

// compared is a row of two figures that were measured in the same rounds.
func compared(what string, ours, theirs series, unit, goal string) row {
	return row{what: what, ours: amount(ours, unit), theirs: amount(theirs, unit), ratio: spread(ours.to(theirs)), goal: goal}
}

// amount is the median of a figure.
func amount(s series, unit string) string {
	if len(s) == 0 {
		return ""
	}
	return figure(s.median()) + " " + unit
}

// spread is a median, and between what nine tenths of the rounds are.
func spread(s series) string {
	if len(s) == 0 {
		return ""
	}
	low, top := s.spread()
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.median(), low, top)
}

func figure(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (r row) cells() []string { return []string{r.what, r.ours, r.theirs, r.ratio, r.goal} }

func (s section) columns() []string { return append(s.head[:], "aim") }

// printTable prints all sections.
func printTable(w io.Writer, sections []section) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, s := range sections {
		fmt.Fprintf(table, "\n%s\n", strings.ToUpper(s.title))
		fmt.Fprintln(table, strings.Join(s.columns(), "\t"))
		for _, r := range s.rows {
			fmt.Fprintln(table, strings.Join(r.cells(), "\t"))
		}
	}
	return table.Flush()
}

// markdown is a section for the document.
func (s section) markdown() string {
	var text strings.Builder
	fmt.Fprintf(&text, "### %s\n\n%s\n\n", s.title, s.text)
	if s.plot != "" {
		fmt.Fprintf(&text, "![%s](benchmarks/%s.svg)\n\n", s.title, s.plot)
	}
	return text.String() + s.table()
}

// table is the section's table, without details.
func (s section) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s |\n|%s\n", strings.Join(s.columns(), " | "), strings.Repeat("---|", 5))
	for _, r := range s.rows {
		if !r.detail {
			fmt.Fprintf(&text, "| %s |\n", strings.Join(r.cells(), " | "))
		}
	}
	return text.String()
}
