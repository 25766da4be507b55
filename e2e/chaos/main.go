// Chaos reads a volume's files without pause while it does away with the
// processes that serve them, and demands that no reader notices:
//
//	chaos kill     SIGKILL for the active or the standby, chosen at random
//	chaos hang     SIGSTOP for the active, which has to be replaced
//	chaos upgrade  another version installed in its place, and init called
//	chaos lossy    the active dies with a request in its hands, for certain;
//	               the binary must be a build "lossy" of e2e/builds
//	chaos soak     everything that pods and the kubelet do, for a long time; the
//	               processes stay, and do not grow
//	chaos idmap    an id-mapped copy of the volume, or the error that is expected
//
// It plays the kubelet for a driver of its own name, so that it disturbs no
// other, and needs root. It exits with 0 only if every operation of every reader
// succeeded, and nothing is left: no process, descriptor, mount or file.
//
// In a soak, another pod hammers on its volume, which is a process of its own, chaos hammer.
// Another that it starts is chaos look.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run executes one command and returns the process's exit status.
func run(args []string) int {
	settings, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	}
	switch settings.verb {
	case "hammer":
		return runHammer(settings)
	case "look":
		return runLook(settings)
	}
	fmt.Printf("chaos %s --seed %d\n", settings.verb, settings.seed)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	t := newTrial(settings)
	t.run(ctx)
	return t.report.print()
}
