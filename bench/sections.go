package main

import "fmt"

// sections are the table.
func (b *bench) sections() []section {
	return []section{b.callOutSection(), b.containerSection(), b.memorySection(), b.doorSection(), b.readSection(), b.requestSection(), b.neighbourSection(), b.listerSection(), b.takeOverSection()}
}

func (b *bench) callOutSection() section {
	f := b.figures
	s := section{
		title: "Call-outs", plot: "call-outs", head: [4]string{"call-out", "driver", "floor", "ratio"},
		text: "The floor of `mount` and `unmount` is a Go program that makes one bind mount; that of `init`, one that does nothing.",
	}
	most := b.settings.levels[len(b.settings.levels)-1]
	for _, measure := range []string{"wall", "cpu"} {
		for _, what := range []string{"init", "mount", "unmount"} {
			for _, level := range b.callLevels() {
				s.rows = append(s.rows, b.callRow(what, level, measure).detailIf(measure == "cpu" || level != 0 && level != most))
			}
		}
	}
	s.rows = append(s.rows, b.flatness())
	for _, what := range []string{"init", "mount", "unmount"} {
		for _, level := range b.callLevels() {
			s.rows = append(s.rows, row{
				what: fmt.Sprintf("`%s`, no daemon, %d volumes", what, level), ours: amount(f[callName(what, level, "cold", "wall")], "ms"),
				detail: level != most,
			})
		}
	}
	return s
}

// floors are what call-outs are compared with.
var floors = map[string]string{"init": "nothing", "mount": "bind", "unmount": "bind"}

func (b *bench) callRow(what string, level int, measure string) row {
	goal := ""
	if what == "mount" && measure == "wall" {
		goal = "at most 1.5"
	}
	return compared(fmt.Sprintf("`%s`, %s, %d volumes", what, timeOf[measure], level),
		b.figures[callName(what, level, "warm", measure)], b.figures[callName(floors[what], level, "warm", measure)], "ms", goal)
}

// flatness is how much more of the floor a mount costs on a full node than on an empty
// one.
func (b *bench) flatness() row {
	overFloor := func(level int) float64 {
		return b.figures[callName("mount", level, "warm", "wall")].to(b.figures[callName("bind", level, "warm", "wall")]).median()
	}
	most := b.settings.levels[len(b.settings.levels)-1]
	return row{
		what:  fmt.Sprintf("`mount`, %d volumes beside none, by the floor", most),
		ratio: fmt.Sprintf("%.2f", overFloor(most)/overFloor(0)), goal: "at most 1.15",
	}
}

var timeOf = map[string]string{"wall": "wall time", "cpu": "CPU time"}

// callLevels are the numbers of volumes that call-outs were measured at.
func (b *bench) callLevels() (levels []int) {
	for _, level := range b.settings.levels {
		if len(b.figures[callName("mount", level, "warm", "wall")]) > 0 {
			levels = append(levels, level)
		}
	}
	return levels
}

func (b *bench) memorySection() section {
	f := b.figures
	s := section{
		title: "Memory", plot: "memory", head: [4]string{"memory of both processes", "private", "with their share of what is common", "per further volume"},
		text: fmt.Sprintf("The daemon is two processes for the whole node. A load is every file of every volume once, and then %v of\n"+
			"32 threads.", b.settings.load),
	}
	for _, level := range b.settings.levels[1:] {
		for _, when := range []string{"rest", "load", "idle"} {
			s.rows = append(s.rows, b.memoryRow(level, when).detailIf(when != "load"))
		}
	}
	s.rows = append(s.rows, row{what: "one process of hello_ll", ours: amount(f["memory/hello_ll/uss"], "KiB"), theirs: amount(f["memory/hello_ll/pss"], "KiB")})
	return s
}

func (b *bench) memoryRow(level int, when string) row {
	uss := b.figures[memoryName(level, when, "uss")]
	r := row{
		what: fmt.Sprintf("%s, %s", b.whenOf(when), count(level, "volume")),
		ours: amount(uss, "KiB"), theirs: amount(b.figures[memoryName(level, when, "pss")], "KiB"),
		goal: fmt.Sprintf("at most %.0f KiB", 4096+2.5*float64(level-1)),
	}
	if level > 1 {
		r.ratio = fmt.Sprintf("%.2f KiB", (uss.median()-b.figures[memoryName(1, "idle", "uss")].median())/float64(level-1))
	}
	return r
}

func (b *bench) whenOf(when string) string {
	return map[string]string{"rest": "mounted", "load": "after a load", "idle": fmt.Sprintf("%.0f s later", b.settings.idle.Seconds())}[when]
}
