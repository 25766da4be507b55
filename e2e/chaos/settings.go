package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// settings are what the command line says.
type settings struct {
	verb         string
	binary       string
	other        string
	duration     time.Duration
	kills        int
	rounds       int
	readers      int
	seed         uint64
	eintrAllowed bool
}

// parse reads the command line: a verb, which is kill if there is none, and flags.
func parse(args []string) (settings, error) {
	s := settings{verb: "kill"}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		s.verb, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("chaos "+s.verb, flag.ContinueOnError)
	flags.StringVar(&s.binary, "driver-binary", "", "the driver, a `FILE`")
	flags.IntVar(&s.readers, "readers", 4, "`NUMBER` of readers that open, read and close; there are others besides")
	flags.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "what the random choices begin with, to repeat a run")
	flags.BoolVar(&s.eintrAllowed, "eintr-allowed", false, "operations may fail with EINTR, as they may before Linux 6.9")
	flags.DurationVar(&s.duration, "duration", time.Minute, "kill: the time over which the kills are spread")
	flags.IntVar(&s.kills, "kills", 200, "kill: the `NUMBER` of kills")
	flags.StringVar(&s.other, "other-binary", "", "upgrade: another version of the driver, a `FILE`")
	flags.IntVar(&s.rounds, "rounds", 0, "the others: the `NUMBER` of hangs (3), upgrades (20) or losses (20)")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%s takes no argument %q", flags.Name(), flags.Arg(0))
	}
	return s, s.check()
}

func (s *settings) check() error {
	defaults, known := map[string]int{"kill": 0, "hang": 3, "upgrade": 20, "lossy": 20}[s.verb]
	if s.rounds == 0 {
		s.rounds = defaults
	}
	switch {
	case !known:
		return fmt.Errorf("%q is not one of kill, hang, upgrade, lossy", s.verb)
	case s.binary == "":
		return errors.New("--driver-binary is missing")
	case s.verb == "upgrade" && s.other == "":
		return errors.New("upgrade needs --other-binary, of another version")
	case s.readers < 1 || s.kills < 1 || s.rounds < 0 || s.duration <= 0:
		return errors.New("--readers, --kills, --rounds and --duration must be positive")
	case os.Geteuid() != 0:
		return errors.New("mounting needs root")
	}
	return nil
}
