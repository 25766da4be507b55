// Package mounter is the process of pod-fuse that mounts: resident, and root.
//
// # Why it exists
//
// A program in a pod is given an open /dev/fuse, and what it serves is to appear in the
// containers of that pod. move_mount(2) into a container needs CAP_SYS_ADMIN over its mount
// namespace, at the moment when somebody there first looks. So one process with that capability
// lives as long as any volume, and does nothing else: it parses nothing that a pod has written
// but what the kernel says in /proc of the pod's processes, and takes orders from the pair alone
// (package wire). The pair could be in the hands of a pod, so that every order is compared with
// root's records and with the kernel.
//
// # What it has
//
//	vault        a mount namespace of its own, with nothing in it but a directory for each
//	             connection, where the program's file system is mounted. The host does not see it
//	connection   a /dev/fuse that was given to a program. The mounter has a duplicate, so that
//	             the connection does not end with its program: whoever reads in it then waits,
//	             and the pair can answer him
//	link         to the pair; the last one that has said hello is told what happens
//	control      where root's call-outs ask, see [Client]
//
// All of that is in a set that a second process, the spare, has as well (package keep). Every order
// is put there before the socket loses it, and every step is noted before the next one, so that the
// spare goes on where the mounter was killed: each step can be done twice. What there is to know of
// a connection is in a file as well. When both have died, the next mounter reads these, and takes
// the descriptors from the programs (recover.go).
//
// It is made of parts, each of which knows those before it: base, children, shared (what server
// volumes have in common), table (volumes and connections), programs (from their first answer to
// their death), recovery, and mounter, which takes orders and call-outs.
//
// # How it waits
//
// The table of volumes belongs to one goroutine, which never waits longer than for the spare to
// read. What asks a file system of somebody else's, or follows a path in a container, is done by a
// child: a process of this binary for one errand, which is killed when its time is up, and ends
// with the mounter. A child also opens the descriptors that come with an order, as to close them
// may take for ever (receive.go). What the kernel may not tell of a process, as long as that
// executes a program, is asked by a thread that is left behind, and of the volume's own pod only
// (package proc, Ask; death.go).
package mounter
