package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// latency are figures of how long a reader's operations took, in microseconds.
type latency [len(figures)]float64

var figures = [...]string{"p50", "p99", "max"}

// latencyOf repeats an operation for some time.
func latencyOf(ctx context.Context, o operation, length time.Duration) (latency, error) {
	took := make([]float64, 0, 1<<20) // grows in nobody's measured time
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; {
		began := time.Now()
		if err := o.do(); err != nil {
			return latency{}, fmt.Errorf("%s: %w", o.name, err)
		}
		took = append(took, float64(time.Since(began))/float64(time.Microsecond))
	}
	if ctx.Err() != nil {
		return latency{}, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	slices.Sort(took)
	return latency{took[len(took)/2], took[len(took)*99/100], took[len(took)-1]}, nil
}

// latencyTable shows, for each company, the median of its turns, between the
// least and the greatest; and the same of the ratios to the turn of nobody before.
func latencyTable(taken [][]latency) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "beside")
	for _, name := range figures {
		fmt.Fprintf(table, "\t%s in µs\tratio", name)
	}
	fmt.Fprintln(table)
	alone := taken[0]
	for i, them := range company {
		fmt.Fprint(table, them.name)
		for f := range figures {
			var times, ratios []float64
			for turn, l := range taken[i] {
				times = append(times, l[f])
				ratios = append(ratios, l[f]/alone[turn][f])
			}
			fmt.Fprintf(table, "\t%s\t%s", between(times, 0), between(ratios, 1))
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	return strings.TrimSuffix(text.String(), "\n")
}

// between is the median of some numbers, and what they lie between.
func between(all []float64, decimals int) string {
	slices.Sort(all)
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, all[len(all)/2], decimals, all[0], decimals, all[len(all)-1])
}
