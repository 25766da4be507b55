// Package pod is what runs in a pod: a launcher of FUSE programs, a stand-in for fusermount
// ([Proxy]), a probe, and a program to try the driver with ([Commands]). They need no privilege, no
// shell, and nothing of the image. Each asks the driver by the socket of a server volume. Nothing
// has to be configured, because mountinfo shows the volume: that of the launcher which has started
// the program, else that of the process's own binary, else that of /dev/fuse.
//
//	{name: data-server, mountPath: /run/pod-fuse}                                     the socket
//	{name: data-server, mountPath: /dev/fuse, subPath: fuse}                          a FIFO
//	{name: data-server, mountPath: /usr/bin/fusermount3, subPath: fusermount3}        Proxy
//
// A FUSE library opens /dev/fuse, is not allowed to mount it, and executes fusermount, which
// gives it another descriptor: the one that the driver has mounted. A program that is told
// /dev/fd/N as its mount point takes that descriptor for it, and needs the first mount only.
//
// The driver finds out by itself that a program is dead, from the descriptor of /dev/fuse that
// nobody holds any more. So no process of this package stays to watch one, and none may keep
// that descriptor.
package pod

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/internal/cli"
)

// Version is what the proxy prints when it is asked.
var Version = "0.0.0-dev"

const program = "pod-fuse"

// Commands are what the containers of a pod execute, beside the proxy.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Name: "run", Args: "-- PROGRAM [ARGUMENT...]", Prepare: launch,
			Help: "in a pod: start a FUSE program, which serves a volume of this pod",
			More: `Where an argument has {}, the program is told /dev/fd/3 instead, and has the connection to the kernel by that descriptor. Without {}, the program is to mount by itself, by the fusermount3 of the same volume. It must stay in the foreground.

Signals go to the program, and its exit status is returned (128 + N if signal N has ended it); 126 or 127 if it cannot be executed, and 1 if the driver refuses.`,
			Example: "run --restart -o ro -- squashfuse -f /image.squashfs {}",
		},
		{
			Name: "ready", Prepare: ready,
			Help:    "in a pod: wait until the volume is served, and exit with status 0",
			More:    `At the timeout, the exit status is 1, and a line says what is. Use it as the startup probe of the program's container, with periodSeconds: 1 and timeoutSeconds: 10. Readers of the volume do not need it: they wait by themselves.`,
			Example: "ready --timeout 9s",
		},
		{
			Name: "demo", Args: "MOUNTPOINT", Help: "in a pod: a FUSE program to try the driver with, in any image",
			More:    `It shows three files: README; clock, which has the time; and log, which gets a line each second from the start of the program on.`,
			Prepare: func(*pflag.FlagSet) func([]string) error { return serveDemo },
			Example: "run --restart -o ro -- /run/pod-fuse/pod-fuse demo {}",
		},
	}
}

// complain prints one line for the user. It begins with a program's name: ours, or fusermount's.
func complain(name, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, fmt.Sprintf(format, args...))
}
