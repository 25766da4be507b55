// Package connection serves a FUSE connection that it may not have opened: it
// reads requests from /dev/fuse, has a file system answer them, and writes the
// replies.
//
// The life of a connection, and the processes that hold its descriptor:
//
//	mount call-out: open /dev/fuse ─ mount(2) ─ Handshake ─ start the daemon ─ exit
//	node daemon:                                            New ─ Serve ─ ... for ever
//	a successor:                                            New ─ Serve
//
// The connection lives as long as any process has the open file description of
// /dev/fuse, however it came by it. [Handshake] happens once in that life; its
// result, [Params], is what a later process needs to go on ([New]). All
// descriptors are duplicates of the first: requests that are read through a
// FUSE_DEV_IOC_CLONE are aborted when that clone closes, and would die with the
// process.
//
// # The loop
//
// One worker leads: it waits for requests, reads those that there are, and answers the
// one whose turn it is. While an answer is under way that may take long, another worker leads,
// and others of that kind wait in turns of their own (slow.go). All volumes
// of a node share one connection, and so one queue in the kernel. The leader reads ahead, and
// gives each volume its turn, however many readers another one has (turns.go). Requests that
// were read ahead are lost when this process dies, so it reads ahead only where the kernel
// can queue them again.
//
// A worker answers look-ups itself, and the requests of an open, a read and a close, these
// without an allocation; the others go through go-fuse's server.
//
// A worker notes what it answers where another process sees it. What was being answered when a
// process died waits, and is answered alone (trials.go).
//
// Before a worker takes a request it looks whether it shall stop: [Connection.Stop]
// returns at a request boundary, with every request answered that was read, but for those that a
// [Holder] has (hold.go). go-fuse's server cannot stop there, so the loop is ours.
package connection
