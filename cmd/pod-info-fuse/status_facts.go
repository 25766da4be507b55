package main

import (
	"fmt"
	"io"

	"example.com/pod-info-fuse/facts"
	"example.com/pod-info-fuse/node"
)

// factsReport is what there is of the operator's facts.
type factsReport struct {
	Dir     string          `json:"dir,omitempty"` // none: the configuration says so
	Count   int             `json:"count"`
	LeftOut []facts.LeftOut `json:"leftOut,omitempty"`
	Stale   bool            `json:"stale,omitempty"`
	Error   string          `json:"error,omitempty"`
}

func newFactsReport(n node.Node) factsReport {
	r := factsReport{Dir: n.FactsDir}
	if r.Dir == "" {
		return r
	}
	now, err := n.Facts()
	if err != nil {
		r.Error = err.Error()
	}
	r.Count, r.LeftOut, r.Stale = now.Count, now.LeftOut, now.Stale
	return r
}

func (r factsReport) print(table io.Writer) {
	if r.Dir == "" {
		fmt.Fprintf(table, "facts\toff\n")
		return
	}
	fmt.Fprintf(table, "facts\t%d in %s\n", r.Count, r.Dir)
	if r.Stale {
		fmt.Fprintf(table, "facts, problem\tthe directory is a new one, which the daemon gets at the next call-out\n")
	}
	if r.Error != "" {
		fmt.Fprintf(table, "facts, problem\t%s\n", printable(r.Error, 0))
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(table, "facts, left out\t%s: %s\n", printable(l.Name, 80), l.Reason)
	}
}
