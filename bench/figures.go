package main

import (
	"fmt"
	"math"
	"slices"
)

// A series is one figure, measured once in every round.
type series []float64

// quantile interpolates between the two nearest of the sorted figures.
func (s series) quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

func (s series) median() float64 { return s.quantile(0.5) }

// spread is between which two figures nine tenths of the rounds are.
func (s series) spread() (low, top float64) { return s.quantile(0.05), s.quantile(0.95) }

// to are the ratios of two series, round by round. A round that measured nothing has
// none.
func (s series) to(other series) series {
	var all series
	for i := range min(len(s), len(other)) {
		if ratio := s[i] / other[i]; !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
			all = append(all, ratio)
		}
	}
	return all
}

// figures are all that was measured, by name.
type figures map[string]series

func (f figures) add(name string, value float64) { f[name] = append(f[name], value) }

// The names of figures.
func callName(what string, volumes int, temperature, measure string) string {
	return fmt.Sprintf("%s/%d/%s/%s", what, volumes, temperature, measure)
}

func readName(target string, threads int, pinned bool, measure string) string {
	return fmt.Sprintf("%s/%d/pinned=%v/%s", target, threads, pinned, measure)
}

func memoryName(volumes int, when, measure string) string {
	return fmt.Sprintf("memory/%d/%s/%s", volumes, when, measure)
}

func doorName(what string) string { return "doors/" + what }

func besideName(system, company, measure string) string {
	return fmt.Sprintf("neighbours/%s/%s/%s", system, company, measure)
}
