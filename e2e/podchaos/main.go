// Podchaos reads volumes of pod-fuse in containers without pause, while it does away with the
// programs that serve them, and demands that no reader notices:
//
//	podchaos kill      SIGKILL for the program, again and again; --with does away with processes
//	                   of the driver meanwhile: one of the pair, the mounter, or the version; or has
//	                   a hostile pod beside, or programs that never answer; --sleepers compares
//	                   outages on a node with many processes
//	podchaos programs  the same, shortly, of each program, by fusermount and by /dev/fd/N
//	podchaos wait      readers that wait for a program are killed, before, during and after a
//	                   take-over; the others read when it comes
//	podchaos soak      pods that come and go, and a program that is killed now and then, for a long time;
//	                   the driver's processes stay, and do not grow
//	podchaos vandal    root of a pod, with the default capabilities, does its worst to what all pods have
//	                   in common; other pods notice nothing
//	podchaos stop      SIGSTOP for the program: the host goes on at once
//	podchaos measure   what reading costs beside the same program mounted by root, how long an
//	                   attach takes, and the memory that volumes take
//
// Its containers are real ones, by runc, as containerd 2.2 makes them for a pod that asks for
// nothing: of their own namespaces, with volumes mounted rw, the default capabilities, and a
// seccomp filter. It is the runc beside this program, if there is one. It plays the kubelet for a
// driver of its own name: the call-outs are made, and the directories laid out, as a kubelet does.
// It needs root, and what e2e/podfuse/setup.sh installs, and everything that it reaches by network
// is on the loopback.
//
// It exits with 0 only if no operation on a path failed, no open file but with ESTALE, and
// nothing is left: no process, mount, cgroup or file.
//
// With --control, root mounts the same program itself, as if there were no pod-fuse, and mounts
// it again as soon as it has died. Then operations have to fail, or the suite sees no errors;
// with no kills, they have not.
//
// In the containers, it is podchaos load, look, measured, hostile, vandalise and supervise.
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
	if len(args) > 0 {
		switch args[0] {
		case "load":
			return runLoad(args[1:])
		case "look":
			return runLook(args[1:])
		case "measured":
			return runMeasured(args[1:])
		case "hostile":
			return runHostile(args[1:])
		case "vandalise":
			return runVandal(args[1:])
		case "supervise":
			return runSupervise(args[1:])
		}
	}
	if os.Getpid() == 1 {
		return inherit(args)
	}
	settings, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "podchaos:", err)
		return 2
	}
	fmt.Printf("podchaos %s --seed %d\n", settings.verb, settings.seed)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	t := newTrial(settings)
	t.run(ctx)
	return t.report.print()
}
