package main

import "fmt"

// lead is the table that the document begins with: what matters to those who run nodes or write
// pods. Each of its rows is also among all of them.
func (b *bench) lead() section {
	most := b.settings.levels[len(b.settings.levels)-1]
	further := b.memoryRow(most, "load")
	return section{
		title: "What matters",
		head:  [4]string{"", "driver", "beside it", "ratio"},
		rows: []row{
			b.callRow("mount", most, "wall").as(fmt.Sprintf("to give a pod its volume, on a node that has %d (`mount`)", most), "one bind mount"),
			b.readRow("driver pod.uid", 1, true, "p50", "µs").as("to read `pod.uid`, on one CPU", inC),
			b.readRow("driver pod.nodename", 1, true, "p50", "µs").as("to read `pod.nodename`, on one CPU", inC),
			b.readRow("driver pod", 1, true, "p50", "µs").as("to read `pod`, on one CPU", inC),
			b.readRow("driver pod", 1, true, "cpu", "µs").as("CPU time of the daemon for that", inC),
			b.readRow("driver pod", 1, false, "p50", "µs").as("to read `pod`, on any CPU", inC),
			b.neighbourRow("beside", "p99").as(fmt.Sprintf("to read `pod` beside %d threads of another pod that read (99 of 100 reads take less)", hammers), "a process in C for each pod"),
			b.listerRow(victims[0], "p50").as(fmt.Sprintf("to read `pod` beside %d threads of another pod that list as many facts as are allowed", listers), "alone"),
			b.listerRow(victims[1], "p50").as("to read a fact beside them", "alone"),
			b.takeOverRow().as("the longest wait of a reader while a process of the daemon is killed", ""),
			b.memoryRow(1, "load").as("memory of the daemon, with one volume", ""),
			{what: "memory for each further volume", ours: further.ratio, goal: "at most 2.5 KiB"},
		},
	}
}

const inC = "in C"

// as is a row in the words of somebody who knows nothing of the others, and says what the
// driver is compared with.
func (r row) as(what, theirs string) row {
	r.what = what
	if theirs == "" {
		r.theirs = ""
	} else {
		r.theirs += ", " + theirs
	}
	return r
}
