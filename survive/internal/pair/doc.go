// Package pair is the pair of processes that serve a node's FUSE mount: the
// active one answers requests, the standby waits for its death. Both are the
// same program, and any of them can be either.
//
// # Descriptors
//
// Every process of the pair is started with these descriptors, and hands
// duplicates of them to the process that it starts:
//
//	2  the file for what Go's runtime says when it ends a process, if there is one
//	3  /dev/fuse, non-blocking: the connection lives while anybody holds it
//	4  the link to the process that started it; see below
//	5  daemon.lock: an fcntl(2) lock on byte 0 is held by the active process, on
//	   byte 1 by the standby, so that the kernel knows that they are there
//	6  the control socket, which listens; the active process accepts
//	7  the log, which a confined process could not open, nor connect again
//	8  the directory that the file system reads beside the records, if there is one
//	9  the file that the process counts in, if there is one; see package counters
//	10 and more: what a driver's companion gives, if it has one
//
// Children of the pair inherit them. A new version gets 4 and all from 7 on new, 5 by its name, and
// 3 and 6 from the active process, from which root takes them; see peer. Descriptors are not sent:
// while they are in flight, the kernel counts them for the user, whom other processes may be, too.
//
// # The link
//
// A link is a pair of SOCK_SEQPACKET sockets between a process and the one
// that it started. Each packet is a JSON [message]:
//
//	starter                              started
//	   │ <──────────── ready ───────────────│  it could serve
//	   │ ───────────── standBy ───────────> │  end-of-file is now my death
//	   │ <──────────── ping ────────────────│  every beat
//	   │ ───────────── pong ──────────────> │  from the loop that serves
//	   │ ───────────── takeOver ──────────> │  I have stopped serving
//	   │ <──────────── serving ─────────────│  you can go
//
// After standBy, end-of-file is the starter's death, and the process takes over.
// Before standBy, it takes over only if it is alone: in an upgrade, the standby of the old
// version is there, and the new process exits. The call-out that starts the first process
// speaks as an active one that leaves: it sends standBy and takeOver.
//
// Each packet has the number of its format, and one of a newer format is refused before
// anybody hands over.
//
// # Taking over
//
// The successor takes the lock on byte 0, which the kernel releases when the
// predecessor is gone, or goes on without it, has the kernel queue again the requests that
// the predecessor had read and not answered ([Service]), serves, and starts a standby. A
// predecessor that lives all the same hears serving, and ends.
//
// # Tests
//
// The type process is the life of a process, and the type active its life while it serves.
// They ask the system for nothing but [env]. A test takes the system's place: a table of
// orders of deaths, hangs, hand-overs and late answers runs without root, in virtual time
// (orders_test.go). make mutate changes each transition in turn, and requires the table to
// fail. Add a row for each new transition.
package pair
