package main

import (
	"errors"
	"flag"
	"os"
	"time"
)

// settings are how much is measured, and with what.
type settings struct {
	binary, plugin, chaos, others, docs, record string
	quick, check, again                         bool

	levels       []int         // numbers of volumes
	calls        int           // rounds of warm call-outs at each level
	coldCalls    int           // rounds of cold ones
	load         time.Duration // before memory is measured again
	idle         time.Duration // and again
	lives        int           // of the servers
	loaded       int           // every so many rounds, one is beside a load; none if 0
	readRounds   int           // in each life
	readLength   time.Duration // of each turn
	threads      []int
	nextRounds   int // of neighbours, in each life
	nextLength   time.Duration
	kills        string
	killDuration string
}

// full is a run for the record, quick one to look at while working, stable what
// --check measures.
var (
	full = settings{
		levels: []int{0, 1, 100, 1000, 5000}, calls: 40, coldCalls: 3, load: 3 * time.Second, idle: time.Minute,
		lives: 5, loaded: 3, readRounds: 3, readLength: 300 * time.Millisecond, threads: []int{1, 4, 32},
		nextRounds: 3, nextLength: time.Second, kills: "200", killDuration: "60s",
	}
	quick = settings{
		levels: []int{0, 1, 100, 1000}, calls: 10, coldCalls: 1, load: time.Second, idle: 10 * time.Second,
		lives: 2, loaded: 3, readRounds: 3, readLength: 100 * time.Millisecond, threads: []int{1, 4, 32},
		nextRounds: 3, nextLength: 500 * time.Millisecond, kills: "30", killDuration: "10s",
	}
	stable = settings{
		levels: []int{500}, load: time.Second, idle: 45 * time.Second,
		readRounds: 15, readLength: 100 * time.Millisecond, threads: []int{1},
	}
)

func parse(args []string) (settings, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	binary := flags.String("driver-binary", "", "the driver, a `FILE`")
	plugin := flags.String("plugin-binary", "", "the CSI node plugin, a `FILE`")
	chaos := flags.String("chaos", "", "the program that kills, a `FILE`")
	others := flags.String("others", "bench/bin", "the `DIRECTORY` of what setup.sh made, and of the floors")
	docs := flags.String("docs", "", "the `DIRECTORY` to write benchmarks.md and its plots into")
	isQuick := flags.Bool("quick", false, "less of everything: four minutes")
	record := flags.String("record", "bench/bin/figures.json", "the `FILE` that has all figures of the last run")
	again := flags.Bool("again", false, "measure nothing, and report on the last run")
	check := flags.Bool("check", false, "only what is the same on any machine, against what is expected")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	s := full
	if *check {
		s = stable
	} else if *isQuick {
		s = quick
	}
	s.binary, s.plugin, s.chaos, s.others, s.docs, s.record = *binary, *plugin, *chaos, *others, *docs, *record
	s.quick, s.check, s.again = *isQuick, *check, *again
	switch {
	case flags.NArg() > 0:
		return s, errors.New("bench takes flags only")
	case s.again:
	case s.binary == "":
		return s, errors.New("--driver-binary is missing")
	case s.plugin == "":
		return s, errors.New("--plugin-binary is missing")
	case s.chaos == "" && !s.check:
		return s, errors.New("--chaos is missing")
	case os.Geteuid() != 0:
		return s, errors.New("mounting needs root")
	}
	return s, nil
}
