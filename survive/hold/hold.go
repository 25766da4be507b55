// Package hold is for file systems some of whose answers come late.
package hold

import "github.com/hanwen/go-fuse/v2/fuse"

// Holder is implemented by file systems some of whose answers come late, minutes after they were
// asked for. Until then no worker waits, and no other reader.
//
// A request is held for two thirds of the kernel's limit at most (fs.fuse.max_request_timeout, 0 by
// default; Linux 6.15), and ends with ENOTCONN: the kernel would abort the connection, which is
// that of all readers. With such a limit, requests that another process had held end with ESTALE,
// as before Linux 6.9.
//
// Hold GETATTR where you can: for a directory whose attributes have no time of validity, the kernel
// asks for them whenever a path goes through it, and has no lock meanwhile. While a LOOKUP is held,
// or what would change the directory, nothing can be mounted on that directory, and another reader
// of that name waits in the kernel, where no signal ends it (fs/namespace.c, do_lock_mount;
// fs/dcache.c, d_alloc_parallel).
//
// Before Linux 6.9, requests that are held are ended with ESTALE when another process
// begins to serve: so path operations are asked for again, and those that were asked for
// again already, or have an open file, show the error to the reader.
type Holder interface {
	// Hold is asked about every request that somebody waits for when it is read, in the order in
	// which they come and by one goroutine. False: it is answered like any other. True: the file
	// system ends it later, by [Answerer]: Fail gives an error, Serve the usual answer. ESTALE has
	// the kernel walk the path once more, in which it finds what was mounted there meanwhile.
	// Hold is asked before what would change something is refused. It must not wait, as all
	// requests wait for it, nor hold what ends nothing: a RELEASE, which no signal ends, or a
	// request that this process itself waits for.
	Hold(r Request) bool
	// Interrupted is told that a request was answered: with EINTR, as its reader is about to die of
	// a signal, or as the kernel limits the time of requests. It may be called from any goroutine.
	// Where the driver's Reads (package survive) have no /proc, every signal counts.
	Interrupted(id uint64)
	// Begin is called when this process begins to serve, and what it returns when that has ended.
	// All requests that were held then, by whatever process, are asked about again.
	Begin(a Answerer) (end func())
}

// Request is what a [Holder] is asked about.
type Request struct {
	ID     uint64 // the kernel's, for as long as this process serves: another may get the request with another id
	Node   uint64
	Opcode uint32 // linux/fuse.h, enum fuse_opcode
	PID    uint32 // the thread that waits, by its number in the PID namespace of who mounted; 0: it has none there

	Message []byte // all of the request, for [Answerer]; valid until Hold returns
}

// Answerer answers requests that are held.
type Answerer interface {
	// Fail ends a request with an error. It ignores an id that is not held, or not any more, as
	// when this process does not serve any more. It may be called from any goroutine, also before
	// Hold has returned.
	Fail(id uint64, status fuse.Status)
	// Serve has a request answered as if Hold had returned false. message is a copy of its Message,
	// which the caller leaves alone from then on. Like Fail, it ignores one that is not held, and
	// may be called from any goroutine.
	Serve(message []byte)
	// Waits tells whether a request is held, and not answered yet.
	Waits(id uint64) bool
}
