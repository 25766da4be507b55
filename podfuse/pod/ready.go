package pod

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/podfuse/wire"
)

const readyUsage = `usage: pod-fuse ready [--timeout 9s]

Waits until a program serves the volume, and exits with 0; or, at the timeout, with 1 and a line that says what is.
Use it as the startup probe of the program's container, with periodSeconds: 1 and timeoutSeconds: 10. Readers of the
volume do not need it: they wait by themselves.

`

// Ready waits until a program serves the volume. Startup probes that do not wait fail before the program can serve: with
// periodSeconds: 1, the kubelet would restart it after three seconds.
func Ready(args []string) int {
	flags := newFlags("ready", readyUsage)
	// Less than the ten seconds of the probe, or the kubelet would not have the line.
	timeout := flags.Duration("timeout", 9*time.Second, "how long to wait for a program to serve, and for the driver to answer")
	if status, ok := parse(flags, args, 0); !ok {
		return status
	}
	if err := waitServed(*timeout); err != nil {
		complain(program, "%v", err)
		return 1
	}
	return 0
}

// waitServed returns an error if no program serves the volume by the timeout.
func waitServed(timeout time.Duration) error {
	s, err := findServer()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(timeout)
	for pause := firstPause; ; pause = min(2*pause, mostReadyPause) {
		answer, _, err := s.ask(wire.Request{Kind: wire.Ready}, max(time.Until(deadline), leastReadyAnswer), func(string, ...any) {})
		if err != nil {
			return err
		}
		if answer.State == wire.Served {
			return nil
		}
		if time.Until(deadline) <= pause {
			return fmt.Errorf("the volume is not served: %s", explain(answer.State))
		}
		time.Sleep(pause)
	}
}

const (
	// mostReadyPause is the longest pause between two questions whether the volume is served.
	mostReadyPause = 100 * time.Millisecond
	// leastReadyAnswer is how long the driver has for the last answer, or it would be said not to run.
	leastReadyAnswer = 500 * time.Millisecond
)

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
