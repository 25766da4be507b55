package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// settings are what the command line says.
type settings struct {
	verb         string
	program      string
	file         string
	binary       string
	other        string
	duration     time.Duration
	kills        int
	rounds       int
	readers      int
	seed         uint64
	eintrAllowed bool
	slow         int
	csi          string
	pause        time.Duration
	samples      string
	expect       string
	volume       string // of a hammer, and of who looks
}

// parse reads the command line: a verb, which is kill if there is none, and flags.
func parse(args []string) (settings, error) {
	s := settings{verb: "kill"}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		s.verb, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("chaos "+s.verb, flag.ContinueOnError)
	flags.StringVar(&s.binary, "driver-binary", "", "the driver, a `FILE`")
	flags.StringVar(&s.program, "program", podInfo, "the `NAME` of the driver's program; any but the default is asked for --file only")
	flags.StringVar(&s.file, "file", "", "the `NAME` of a file in the volumes of another program, whose content is always as long, and never smaller than before")
	flags.IntVar(&s.readers, "readers", 4, "`NUMBER` of readers that open, read and close; there are others besides")
	flags.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "what the random choices begin with, to repeat a run")
	flags.BoolVar(&s.eintrAllowed, "eintr-allowed", false, "operations may fail with EINTR, as they may before Linux 6.9")
	flags.IntVar(&s.slow, "slow", 1, "the `FACTOR` by which each limit of time is longer, for an emulated machine")
	flags.DurationVar(&s.duration, "duration", time.Minute, "kill, soak: how long it takes")
	flags.IntVar(&s.kills, "kills", 200, "kill: the `NUMBER` of kills")
	flags.StringVar(&s.other, "other-binary", "", "upgrade, soak: another version of the driver, a `FILE`")
	flags.StringVar(&s.csi, "csi-binary", "", "soak: the CSI node plugin, a `FILE`, through which volumes come and go as well; it mounts in the namespaces of process 1, which must be those of chaos")
	flags.DurationVar(&s.pause, "pause", 0, "soak: the `TIME` that a reader waits after each operation, and who has volumes come and go, or starts programs, twenty times that, when the warm-up is over; without it, they never wait, and another pod hammers besides until the end")
	flags.StringVar(&s.samples, "samples", "", "soak: the `FILE` that what was seen is written to, as lines of JSON")
	flags.IntVar(&s.rounds, "rounds", 0, "hang, upgrade, lossy: how often, a `NUMBER` (default 3, 20, 20)")
	flags.StringVar(&s.expect, "expect", "", "idmap: works, or the name of an error, as EINVAL")
	flags.StringVar(&s.volume, "volume", "", "hammer, look: the volume, a `DIRECTORY`")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%s takes no argument %q", flags.Name(), flags.Arg(0))
	}
	if s.slow < 1 {
		return s, errors.New("--slow must be positive")
	}
	for _, limit := range limits {
		*limit *= time.Duration(s.slow)
	}
	return s, s.check()
}

// limits tell what hangs from what waits, and are set by the command line.
var limits = []*time.Duration{&endTimeout, &recoveryTimeout, &commandTimeout, &hangTimeout, &takeOverTimeout}

func (s *settings) check() error {
	switch {
	case (s.verb == "hammer" || s.verb == "look") && s.volume != "":
		return nil
	}
	verb, known := verbs[s.verb]
	if s.rounds == 0 {
		s.rounds = verb.rounds
	}
	switch {
	case !known:
		return fmt.Errorf("%q is not one of %s", s.verb, slices.Sorted(maps.Keys(verbs)))
	case s.binary == "":
		return errors.New("--driver-binary is missing")
	case (s.program == podInfo) != (s.file == ""):
		return errors.New("--program and --file go together")
	case s.program != podInfo && !slices.Contains([]string{"kill", "hang", "upgrade", "lossy"}, s.verb):
		return fmt.Errorf("%s is for %s only", s.verb, podInfo)
	case s.verb == "upgrade" && s.other == "":
		return errors.New("upgrade needs --other-binary, of another version")
	case s.verb == "idmap" && s.expect == "":
		return errors.New("idmap needs --expect, which is works or the name of an error")
	case s.verb == "soak" && s.duration < time.Minute:
		return errors.New("soak needs a --duration of a minute at least: what grows slowly would not show")
	case s.verb != "soak" && (s.csi != "" || s.pause != 0 || s.samples != ""):
		return errors.New("--csi-binary, --pause and --samples are for soak")
	case s.pause < 0 || s.readers < 1 || s.kills < 1 || s.rounds < 0 || s.duration <= 0:
		return errors.New("--readers, --kills, --rounds and --duration must be positive, and --pause not negative")
	case os.Geteuid() != 0:
		return errors.New("mounting needs root")
	}
	return nil
}
