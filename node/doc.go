// Package node is the driver's presence on a node: one FUSE mount, the daemon
// that serves it, and the records of the volumes. It has no state but what is
// in its run directory and in the kernel:
//
//	/run/pod-info-fuse/<vendor~driver>/
//	    lock             flock(2): call-outs share it, starting and stopping exclude
//	    daemon.lock      fcntl(2) locks say who is active and standby; see package daemon
//	    connection.json  what was agreed on with the kernel when fs was mounted
//	    control          the active process's socket, which root can connect to
//	    callouts         counts of them; see package metrics
//	    facts            which directory of facts the daemon was given
//	    unhealed         is there while volumes may be dead that a daemon left
//	    fs               the node's FUSE mount
//	    volumes/         a record per volume; see package volume
//
// All of it belongs to root. The daemon's group can read, others can not.
//
// The mount call-out that finds no daemon starts it: it mounts fs, answers
// FUSE_INIT itself, and executes its own binary with descriptors of what it
// opened. From then on the daemon only reads and writes them, and needs no
// privilege.
//
// Whether a daemon lives is asked of the kernel, never of a file with a PID: a
// lock goes with the process that holds it, and F_GETLK tells which one that is.
package node
