package main

import (
	"fmt"
	"slices"
	"strings"

	"example.com/pod-info-fuse/internal/facts"
)

// cTarget is what every read is compared with.
const cTarget = "hello_ll hello"

var allTargets = []string{"driver pod.uid", "driver pod.nodename", "driver pod", "go-fuse pod.uid", "go-fuse pod.nodename", "go-fuse pod", "lxcfs uptime"}

// costTargets are those whose cost for an operation the document tells.
var costTargets = []string{"driver pod", "go-fuse pod", "lxcfs uptime"}

var placeOf = map[bool]string{true: "on one CPU", false: "anywhere"}

func (b *bench) readSection() section {
	s := section{
		title: "Reads", plot: "reads", head: [4]string{"open, read and close", "median", "hello_ll", "ratio"},
		text: "go-fuse is the same file system, served by go-fuse's own server, without confinement. \"On one CPU\" means readers and\n" +
			"server together.",
	}
	for _, pinned := range []bool{true, false} {
		for _, threads := range b.settings.threads {
			for _, target := range allTargets {
				s.rows = append(s.rows, b.readRow(target, threads, pinned, "p50", "µs").detailIf(threads > 1 || !pinned && !strings.HasPrefix(target, "driver ")))
			}
		}
	}
	most := b.settings.threads[len(b.settings.threads)-1]
	for _, target := range allTargets {
		for _, r := range []row{
			b.readRow(target, 1, true, "p99", "µs"), b.readRow(target, most, false, "p99", "µs"), b.readRow(target, most, false, "rate", "/s"),
		} {
			s.rows = append(s.rows, r.detailIf(target != "driver pod"))
		}
	}
	return s
}

func (b *bench) readRow(target string, threads int, pinned bool, measure, unit string) row {
	goal := ""
	if threads == 1 {
		goal = readGoals[measure+" "+target]
	}
	return compared(fmt.Sprintf("%s, %s, %s %s", target, measureOf[measure], count(threads, "thread"), placeOf[pinned]),
		b.figures[readName(target, threads, pinned, measure)], b.figures[readName(cTarget, threads, pinned, measure)], unit, goal)
}

// readGoals are for one thread.
var readGoals = map[string]string{
	"p50 driver pod.uid": "at most 0.55", "p50 driver pod.nodename": "at most 0.9", "p50 driver pod": "at most 0.9",
	"cpu driver pod": "at most 1.2",
}

var measureOf = map[string]string{
	"p50": "p50", "p99": "p99", "rate": "operations a second", "cpu": "CPU of the server",
	"replies": "replies", "switches": "context switches",
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// requestSection has what an operation costs the machine.
func (b *bench) requestSection() section {
	s := section{
		title: "What an operation costs", plot: "cpu", head: [4]string{"open, read and close", "median", "hello_ll", "ratio"},
		text: "For one operation. Context switches are those of the server and its readers.",
	}
	for _, target := range allTargets {
		s.rows = append(s.rows, b.readRow(target, 1, true, "cpu", "µs").detailIf(!slices.Contains(costTargets, target)))
	}
	for _, target := range allTargets {
		for _, measure := range []string{"replies", "switches"} {
			s.rows = append(s.rows, b.readRow(target, 1, true, measure, "").detailIf(!slices.Contains(costTargets, target)))
		}
	}
	return s
}

func (b *bench) neighbourSection() section {
	f := b.figures
	s := section{
		title: "Neighbours", plot: "neighbours", head: [4]string{"reader of one volume", "driver", "two processes of hello_ll", "ratio"},
		text: fmt.Sprintf("One thread reads `pod`, alone and beside %d threads of another pod that read theirs. All volumes share the daemon's\n"+
			"queue; each process of hello_ll has its own.", hammers),
	}
	for _, company := range []string{"alone", "beside"} {
		for _, measure := range []string{"p50", "p99"} {
			s.rows = append(s.rows, b.neighbourRow(company, measure))
		}
	}
	s.rows = append(s.rows, compared("what the others reach", f[besideName("driver", "others", "rate")], f[besideName("hello_ll", "others", "rate")], "/s", ""))
	return s
}

func (b *bench) neighbourRow(company, measure string) row {
	what, goal := company, ""
	if company == "beside" {
		what = fmt.Sprintf("beside %d threads", hammers)
		if measure == "p99" {
			goal = "at most 1.0"
		}
	}
	f := b.figures
	return compared(what+", "+measure, f[besideName("driver", company, measure)], f[besideName("hello_ll", company, measure)], "µs", goal)
}

func (b *bench) listerSection() section {
	s := section{
		title: "Listers", head: [4]string{"reader of one volume", "beside listers", "alone", "ratio"},
		text: fmt.Sprintf("One thread reads a file a thousand times a second, alone and beside %[2]d threads of another pod that list their volume.\n"+
			"Each has as many facts as are allowed, %[1]d.", facts.MaxEntries, listers),
	}
	for _, victim := range victims {
		for _, measure := range []string{"p50", "p99"} {
			s.rows = append(s.rows, b.listerRow(victim, measure))
		}
		s.rows = append(s.rows, row{what: "listings meanwhile, beside " + victim.of, ours: amount(b.figures[besideName(victim.name, "others", "rate")], "/s")})
	}
	return s
}

func (b *bench) listerRow(v victim, measure string) row {
	goal := ""
	if measure == "p50" {
		goal = "at most 2.0"
	}
	f := b.figures
	return compared(v.of+", "+measure, f[besideName(v.name, "beside", measure)], f[besideName(v.name, "alone", measure)], "µs", goal)
}

func (b *bench) takeOverRow() row {
	f := b.figures
	return row{
		what: b.settings.kills + " in " + b.settings.killDuration, goal: "below 100 ms",
		ours: amount(f["take-over/stall"], "ms"), theirs: amount(f["take-over/else"], "ms"),
	}
}

func (b *bench) takeOverSection() section {
	f := b.figures
	return section{
		title: "Take-over", head: [4]string{"kills", "longest stall while a process is replaced", "in the rest of the time", ""},
		text: "The active process or the standby is killed under the readers of `make chaos`. The rest of the time tells what so\n" +
			"many readers do to each other.",
		rows: []row{b.takeOverRow(), {what: "what the machine's host took of the CPUs meanwhile", ours: amount(f["take-over/taken"], "%")}},
	}
}
