package pod

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/podfuse/wire"
)

const readyUsage = `usage: pod-fuse ready [--timeout 1s]

Exits with 0 if a program serves the volume, and else with 1 and a line that says what is.
Use it as the startup probe of the program's container. Readers of the volume do not need it: they wait by themselves.

`

// Ready tells whether a program serves the volume.
func Ready(args []string) int {
	flags := newFlags("ready", readyUsage)
	timeout := flags.Duration("timeout", time.Second, "how long to wait for the driver")
	if status, ok := parse(flags, args, 0); !ok {
		return status
	}
	s, err := findServer()
	var answer wire.Answer
	if err == nil {
		answer, _, err = s.ask(wire.Request{Kind: wire.Ready}, *timeout, func(string, ...any) {})
	}
	switch {
	case err != nil:
		complain(program, "%v", err)
		return 1
	case answer.State != wire.Served:
		complain(program, "the volume is not served: %s", explain(answer.State))
		return 1
	}
	return 0
}

// explain is a state for a user.
func explain(state wire.State) string {
	switch state {
	case wire.Waiting:
		return "no program has served it yet"
	case wire.Dead:
		return "its program has died; readers wait for the next one"
	case wire.Gone:
		return "no program has served it for so long that readers get an error"
	}
	return string(state)
}

// newFlags returns the flags of a verb.
func newFlags(verb, usage string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(verb, pflag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage+flags.FlagUsages()) }
	return flags
}

// parse reads the arguments of a verb, and returns the exit status if that was all: 2 for what
// is no use of it.
func parse(flags *pflag.FlagSet, args []string, most int) (status int, ok bool) {
	err := flags.Parse(args)
	if err == nil && most >= 0 && flags.NArg() > most {
		err = fmt.Errorf("%q is too much", flags.Arg(most))
	}
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0, false
	case err != nil:
		complain(program, "%s: %v; see %s %s --help", flags.Name(), err, program, flags.Name())
		return 2, false
	}
	return 0, true
}
