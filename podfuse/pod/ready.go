package pod

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/podfuse/wire"
)

// ready is the command that waits until a program serves the volume. A startup probe that did not
// wait would fail until the program can serve: with periodSeconds: 1, the kubelet would restart it
// after three seconds.
func ready(set *pflag.FlagSet) func(args []string) error {
	// Less than the ten seconds of the probe, or the kubelet would not have the line.
	timeout := set.Duration("timeout", 9*time.Second, "`TIME` to wait for a program to serve, and for the driver to answer")
	return func([]string) error { return waitServed(*timeout) }
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
	// leastReadyAnswer is how long the driver has for the last answer, or it would be said not to
	// run.
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
