// Package node is the driver's presence on a node: one FUSE mount, the daemon
// that serves it, and the records of the volumes. It has no state but what is
// in its run directory and in the kernel:
//
//	/run/pod-info-fuse/<vendor~driver>/
//	    lock             flock(2): call-outs share it, starting and stopping exclude
//	    daemon.lock      fcntl(2) lock on byte 0: held by the daemon that serves
//	    connection.json  what was agreed on with the kernel when fs was mounted
//	    fs               the node's FUSE mount
//	    volumes/         a record per volume; see package volume
//
// The mount call-out that finds no daemon starts it: it mounts fs, answers
// FUSE_INIT itself, and executes its own binary with three descriptors. From
// then on the daemon only reads and writes them, and needs no privilege:
//
//	3  /dev/fuse, non-blocking
//	4  the readiness pipe: "ready" or an error; end-of-file means that it died
//	5  daemon.lock
//
// Whether a daemon lives is asked of the kernel, never of a file with a PID: a
// lock goes with the process that holds it, and F_GETLK tells which one that is.
package node
