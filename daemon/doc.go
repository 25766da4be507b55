// Package daemon is the pair of processes that serve a node's FUSE mount: the
// active one answers requests, the standby waits for its death. Both are the
// same program, and any of them can be either.
//
// # Who holds what
//
// Every process of the pair is started with these descriptors, and hands
// duplicates of them to the process that it starts:
//
//	3  /dev/fuse, non-blocking: the connection lives while anybody holds it
//	4  the link to whoever started it; see below
//	5  daemon.lock: an fcntl(2) lock on byte 0 is held by the active process, on
//	   byte 1 by the standby, so that the kernel knows who they are
//	6  the control socket, which listens; the active process accepts
//	7  the log, which a confined process could not open
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
// Before it, it does so only if there is nobody else: in an upgrade, the standby of
// the old version is there, and the new process exits. The call-out that starts the first process plays the
// active one that leaves: it sends standBy and takeOver.
//
// # Taking over
//
// The successor waits for the lock on byte 0, which the kernel gives it when the
// predecessor is gone, has the kernel queue again what the predecessor had read
// and not answered ([connection.Connection.Recover]), serves, and starts a
// standby.
package daemon
