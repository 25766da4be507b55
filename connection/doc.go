// Package connection serves a FUSE connection that it may not have opened: it
// reads requests from /dev/fuse, has a file system answer them, and writes the
// replies.
//
// The life of a connection, and who holds its descriptor:
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
// Of the workers one leads: it waits for requests, reads those that there are, and
// answers the one whose turn it is. While that may take long, another one leads. All volumes of a node are one connection and one
// queue in the kernel; that each gets its turn, however many readers another one
// has, is done here (turns.go). Reading ahead makes more requests wait in this
// process when it dies, so it is done where the kernel can queue them again only.
//
// A worker answers the requests of an open, a read and a close itself, without an
// allocation; the others go through go-fuse's server.
//
// Before a worker takes a request it looks whether it shall stop: [Connection.Stop]
// returns at a request boundary, with nothing read that is not answered. That is why
// the loop is ours and not go-fuse's server.
package connection
