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
	verb     string
	binary   string
	other    string
	beside   string
	modules  string
	programs []program
	by       []string
	kills    int
	threads  int
	uid      int
	seed     uint64
	with     string
	sleepers int
	control  bool
	// These two are for Linux before 6.9.
	staleAllowed, before6_9 bool
	verbose                 bool
	duration                time.Duration
	pause                   time.Duration // of a reader's thread; 0: none
	samples                 string
}

// parse reads the command line: a verb and flags.
func parse(args []string) (settings, error) {
	s := settings{verb: "kill"}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		s.verb, args = args[0], args[1:]
	}
	verb, known := verbs[s.verb]
	if !known {
		return s, fmt.Errorf("%q is not one of %s", s.verb, slices.Sorted(maps.Keys(verbs)))
	}
	var names, by string
	flags := flag.NewFlagSet("podchaos "+s.verb, flag.ContinueOnError)
	flags.StringVar(&s.binary, "driver-binary", "", "the driver, a `FILE`")
	flags.StringVar(&s.other, "other-binary", "", "--with upgrade: another version of the driver, a `FILE`")
	flags.StringVar(&s.beside, "beside", "", "a pod-info-fuse, a `FILE`: a volume of it is read meanwhile, and one of a second pod of pod-fuse")
	flags.StringVar(&s.modules, "modules", "e2e/bin", "the `DIRECTORY` of the programs that setup.sh builds from modules")
	flags.StringVar(&names, "programs", verb.programs, "which, separated by commas, or all")
	flags.StringVar(&by, "by", verb.by, "how they get the device and who starts them again, separated by commas: "+strings.Join(ways, ", "))
	flags.IntVar(&s.kills, "kills", verb.kills, "the `NUMBER` of kills of each program; with 0, it is read for two seconds")
	flags.IntVar(&s.threads, "threads", 12, "`NUMBER` of threads that operate on paths; two read what is open besides")
	flags.IntVar(&s.uid, "uid", 1000, "the `UID` of the containers")
	flags.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "what the random choices begin with, to repeat a run")
	flags.StringVar(&s.with, "with", "", "kill: what else is done away with: pair, hang, upgrade, mounter; storm: a hostile pod beside; silent: 40 programs beside that never answer; attach: the mounter while a program comes back")
	flags.IntVar(&s.sleepers, "sleepers", 0, "kill: kill each program so often again beside a `NUMBER` of processes that sleep, and compare")
	flags.BoolVar(&s.control, "control", false, "root mounts the programs itself, without the driver, which has to fail")
	flags.BoolVar(&s.staleAllowed, "estale-allowed", false, "wait: who waited through a take-over may get ESTALE, as before Linux 6.9")
	flags.BoolVar(&s.before6_9, "before-6.9", false, "kill: operations may fail with EINTR, ESTALE, ECONNABORTED or ENOTCONN, as they may before Linux 6.9")
	flags.DurationVar(&promisedTimeout, "promptly", promisedTimeout, "wait, stop: how long an unmount may take, and the end of a waiter that is killed")
	flags.DurationVar(&s.duration, "duration", 10*time.Minute, "soak: how long it takes")
	flags.DurationVar(&s.pause, "pause", 0, "soak: the `TIME` that each of the threads waits after each operation")
	flags.StringVar(&s.samples, "samples", "", "soak: the `FILE` that what was seen is written to, as lines of JSON")
	flags.BoolVar(&s.verbose, "verbose", false, "kill: print the end of what each program said")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%s takes no argument %q", flags.Name(), flags.Arg(0))
	}
	s.by = strings.Split(by, ",")
	return s, errors.Join(s.choose(names), s.check())
}

// choose picks programs by their names.
func (s *settings) choose(names string) error {
	if names == "all" {
		s.programs = programs
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
		if i < 0 {
			return fmt.Errorf("program %q is not known", name)
		}
		s.programs = append(s.programs, programs[i])
	}
	return nil
}

func (s *settings) check() error {
	for _, by := range s.by {
		if !slices.Contains(ways, by) {
			return fmt.Errorf("--by %q is not one of %s", by, ways)
		}
	}
	switch {
	case s.binary == "" && !s.control:
		return errors.New("--driver-binary is missing")
	case s.control && (s.verb != "kill" && s.verb != "stop" || s.with != "" || !slices.Equal(s.by, []string{byFusermount})):
		return errors.New("--control is for kill alone and stop, by fusermount")
	case s.with != "" && s.with != amidAttach && disturbances[s.with] == nil:
		return fmt.Errorf("--with %q is neither %s nor one of %s", s.with, amidAttach, slices.Sorted(maps.Keys(disturbances)))
	case s.with != "" && s.verb != "kill":
		return errors.New("--with is for kill")
	case s.with == "upgrade" && s.other == "":
		return errors.New("--with upgrade needs --other-binary, of another version")
	case s.verb == "soak" && (s.duration < time.Minute || s.pause <= 0):
		return errors.New("soak needs a --duration of a minute at least, as what grows slowly would not show; and a --pause")
	case s.verb != "soak" && (s.pause != 0 || s.samples != ""):
		return errors.New("--pause and --samples are for soak")
	case s.sleepers != 0 && s.verb != "kill":
		return errors.New("--sleepers is for kill")
	case s.kills < 0 || s.threads < 1:
		return errors.New("--threads must be positive, and --kills not negative")
	case os.Geteuid() != 0:
		return errors.New("mounting needs root")
	}
	return nil
}
