// The runtime would size GOMAXPROCS by the cgroup's CPU limit, and keep cgroup
// files open to follow it. A call-out lives too briefly for that, and the daemon
// leaves the cgroup that it was started in.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command pod-fuse is a FlexVolume driver by which any FUSE program of an unprivileged pod serves
// a volume of that pod. The same binary is in each server volume, for the programs of the pod:
// package pod describes that side, packages standin and mounter the node's.
package main

import (
	"os"

	"example.com/pod-info-fuse/podfuse/mounter"
	"example.com/pod-info-fuse/podfuse/pod"
)

// version is replaced by the linker; see the Makefile.
var version = "0.0.0-dev"

func main() {
	pod.Version = version
	if pod.IsProxy(os.Args[0]) {
		os.Exit(pod.Proxy(os.Args[0], os.Args[1:]))
	}
	if len(os.Args) > 1 {
		if run := mounter.Internal(os.Args[1]); run != nil {
			os.Exit(status(run(os.Args[2:])))
		}
	}
	program().Main()
}

// status is the exit status of a process of the mounter's, which has logged its error.
func status(err error) int {
	if err != nil {
		return 1
	}
	return 0
}
