// Package pod is what runs in a pod: a launcher of FUSE programs ([Run]), a stand-in for
// fusermount ([Proxy]), a probe ([Ready]), and a program to try the driver with ([Demo]). They need
// no privilege, no shell, and nothing of the image. Each asks the driver by the socket of a server
// volume, which mountinfo shows, so that nothing has to be configured: that of the launcher which
// has started the program, else that of its own binary, else that of /dev/fuse.
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
)

// Version is what the proxy prints when it is asked.
var Version = "0.0.0-dev"

const program = "pod-fuse"

// complain tells the user one line. A name says who speaks: ours, or fusermount's.
func complain(name, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, fmt.Sprintf(format, args...))
}
