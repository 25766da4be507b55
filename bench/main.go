// Bench measures what the driver costs a node, beside what others cost, in the same
// run:
//
//	call-outs   wall and CPU time of init, mount and unmount as whole processes,
//	            beside a program that does nothing, and one that binds a directory
//	containers  mount and unmount, beside none and 500 of them
//	memory      what both processes of the daemon have for themselves
//	two doors   requests to the CSI plugin beside the call-outs that it executes, and
//	            the plugin's memory
//	reads       open, read and close of a file, beside hello_ll, the example of C
//	            libfuse; lxcfs; and the same file system behind go-fuse's server
//	neighbours  one reader beside 32 threads that hammer on another volume, and the
//	            same with two processes of hello_ll
//	listers     one reader beside 8 threads that list another volume, with as many facts
//	            as are allowed
//	take-over   the longest stall of a reader while processes are killed
//
// A machine is faster at some times than at others. So everything that is compared has
// its turn in every round, and what is compared are the ratios of each round: the
// median of them, and between what nine tenths of them are, which tells how far it can
// be trusted. What differs from run to run, differs from round to round: servers are
// started anew after a few, and some are beside a load. A ratio is good on any machine; a
// time, on the one that measured it.
//
// It prints a table, and writes it with plots and the machine's description where --docs
// says. With --check it measures what does not depend on the machine's speed, and
// fails when that has become worse than expected.json says by more than the margin there:
// memory, allocations, replies and voluntary context switches. With --again it reports on
// the last run.
//
// It plays the kubelet for a driver of its own name, needs root, and leaves no process,
// mount or file. It starts itself in four roles: as the client that reads, as a
// server of the file system in other ways than the daemon's, as a load, and as what calls
// the CSI plugin, on a node of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "client":
			return client(args[1:])
		case "serve":
			return serve(args[1:])
		case "load":
			return compute()
		case "doors":
			return doors(args[1:])
		}
	}
	s, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	b := &bench{settings: s, ctx: ctx, figures: figures{}, began: time.Now()}
	switch {
	case s.again:
		return b.again()
	case s.check:
		return b.check()
	}
	return b.all()
}
