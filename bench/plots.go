package main

import (
	"fmt"
	"strconv"
	"strings"

	"example.com/pod-info-fuse/bench/svg"
)

// plots are the pictures, by name.
func (b *bench) plots() map[string]string {
	return map[string]string{
		"call-outs": b.callOutPlot(), "memory": b.memoryPlot(), "neighbours": b.neighbourPlot(),
		"reads": b.targetPlot("How long a reader waits", "open, read and close; median; one thread, on the CPU of its server; lines: nine tenths of the rounds", "p50"),
		"cpu":   b.targetPlot("What a read costs the server", "CPU time for one open, read and close; lines: nine tenths of the rounds", "cpu"),
	}
}

func (b *bench) callOutPlot() string {
	p := svg.Lines{Title: "A call-out, by the number of volumes", Subtitle: "wall time of the whole process; median", Unit: "ms"}
	levels := b.callLevels()
	for _, level := range levels {
		p.Steps = append(p.Steps, strconv.Itoa(level))
	}
	for _, one := range []struct {
		what, name string
		ours       bool
	}{
		{"init", "init", true}, {"mount", "mount", true}, {"unmount", "unmount", true},
		{"bind", "one bind mount", false}, {"nothing", "nothing at all", false},
	} {
		l := svg.Line{Name: one.name, Strong: one.ours}
		for _, level := range levels {
			l.Values = append(l.Values, b.figures[callName(one.what, level, "warm", "wall")].median())
		}
		p.Lines = append(p.Lines, l)
	}
	return p.SVG()
}

func (b *bench) memoryPlot() string {
	p := svg.Lines{Title: "Memory, by the number of volumes", Subtitle: "private memory of all processes that serve them; of hello_ll, that of one process times the number", Unit: "MiB"}
	ours := svg.Line{Name: "driver, after a load", Strong: true}
	theirs := svg.Line{Name: "a hello_ll each"}
	for _, level := range b.settings.levels[1:] {
		p.Steps = append(p.Steps, strconv.Itoa(level))
		ours.Values = append(ours.Values, b.figures[memoryName(level, "idle", "uss")].median()/1024)
		theirs.Values = append(theirs.Values, float64(level)*b.figures["memory/hello_ll/uss"].median()/1024)
	}
	p.Lines = []svg.Line{ours, theirs}
	return p.SVG()
}

// targetPlot compares one figure of everything that can be read.
func (b *bench) targetPlot(title, subtitle, measure string) string {
	p := svg.Bars{Title: title, Subtitle: subtitle, Unit: "µs"}
	for i, target := range append(allTargets[:3:3], append([]string{cTarget}, allTargets[3:]...)...) {
		s := b.figures[readName(target, 1, true, measure)]
		p.Bars = append(p.Bars, bar(labelOf(target), s, i < 3, i == 3 || i == 4))
	}
	return p.SVG()
}

// labelOf tells what is written in C.
func labelOf(target string) string {
	server, file, _ := strings.Cut(target, " ")
	if server == "hello_ll" || server == "lxcfs" {
		server += ", in C"
	}
	return server + ": " + file
}

func bar(label string, s series, strong, gap bool) svg.Bar {
	low, top := s.spread()
	return svg.Bar{Label: label, Value: s.median(), Low: low, Top: top, Strong: strong, Gap: gap}
}

func (b *bench) neighbourPlot() string {
	p := svg.Bars{
		Title:    fmt.Sprintf("One reader beside %d threads on another volume", hammers),
		Subtitle: "open, read and close; hello_ll: a process for each volume; lines: nine tenths of the rounds", Unit: "µs",
	}
	for i, company := range []string{"alone", "beside"} {
		for j, measure := range []string{"p50", "p99"} {
			for _, system := range []string{"driver", "hello_ll"} {
				s := b.figures[besideName(system, company, measure)]
				p.Bars = append(p.Bars, bar(fmt.Sprintf("%s, %s, %s", system, company, measure), s, system == "driver", i+j > 0 && system == "driver"))
			}
		}
	}
	return p.SVG()
}
