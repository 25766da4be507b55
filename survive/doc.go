// Package survive keeps a FUSE mount alive when a process that serves it dies, hangs, or is
// replaced by another version. It is for any file system: a driver describes itself once
// ([Driver]), the kubelet calls it ([CallOuts]), and package command makes a program of that. What
// a file system must do for it says [FileSystem], and package survivetest tests it. Package iofs is
// one, of a tree of package io/fs. Without a kubelet, package command makes a program of a driver
// as well.
//
// A node has one FUSE mount of an installation, with a directory for each volume, and a pair of
// processes that serve it; a volume is a bind mount of its directory. [Node] is that presence.
// It has no state but what is in its run directory and in the kernel:
//
//	/run/PROGRAM/<vendor~driver>/
//	    lock             flock(2): call-outs share it, starting and stopping exclude
//	    daemon.lock      fcntl(2) locks say who is active and standby; see package pair
//	    connection.json  what was agreed on with the kernel when fs was mounted
//	    crash            what Go's runtime said when it ended a process that serves
//	    control          the active process's socket, which root can connect to
//	    version          of the daemon, as the call-out noted it that started it
//	    callouts         counts of them; see package metrics
//	    input            which directory the daemon was given to read, and its Config
//	    state            memory that the processes that serve share; see [Driver.State]
//	    companion        which [Companion] it was given descriptors of, if the driver has one
//	    cgroup           the daemon's own, a directory a line
//	    cgroup-problem   why the daemon is in the kubelet's cgroup, if it is
//	    upgrade-failed   why, while this has not been mended
//	    dead/            mounts of file systems whose daemon has died, while volumes are left
//	    lingering/       marks of volumes that are unmounted, and whose pods are there
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
// Whether a daemon lives is asked of the kernel, never of a file with a PID: its lock is
// enough for a volume to be mounted, and the node mount itself, within a limit, for
// anything that would end it.
package survive
