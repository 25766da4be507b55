// The runtime would size GOMAXPROCS by the cgroup's CPU limit, and keep cgroup
// files open to follow it. A call-out lives too briefly for that, and the daemon
// leaves the cgroup that it was started in.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command pod-info-fuse is a FlexVolume driver: the kubelet executes it to
// mount volumes whose files tell a pod about itself and its node. Package flex
// describes the call-outs, package fs the files, package node the daemon.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
)

// version is replaced by the linker; see the Makefile.
var version = "0.0.0-dev"

func main() {
	os.Exit(run(os.Args, time.Now()))
}

// errUsage is an error of whoever typed the command. Its text has been printed.
var errUsage = errors.New("usage")

// run executes one command and returns the process's exit status.
func run(args []string, started time.Time) int {
	if len(args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	var err error
	switch args[1] {
	case "status":
		err = status(args[2:])
	case "stop":
		err = stop(args[2:])
	case "restore":
		err = restore(args[2:])
	case "upgrade":
		err = upgrade(args[2:])
	case "selinux":
		err = seLinux(args[2:])
	case "install":
		err = installCommand(args[2:])
	case "uninstall":
		err = uninstall(args[2:])
	case "watch":
		err = watch(args[2:])
	case "version", "--version":
		fmt.Println("pod-info-fuse", version)
	case "help", "--help", "-h":
		fmt.Print(usage)
	case "serve":
		err = serve(args[2:])
	default:
		return callOut(args[1:], started)
	}
	switch {
	case errors.Is(err, errUsage):
		return 2
	case errors.Is(err, pflag.ErrHelp): // pflag has printed the flags
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "pod-info-fuse:", err)
		return 1
	}
	return 0
}
