// Package counters counts what the two processes of a pair do, for whoever asks whether they are
// slow, or dead. Neither needs to be asked for that: they count in memory that is a file.
//
// Root makes the file in the run directory, whole, before it starts a process, and gives the
// process a descriptor of it. Each maps it before it serves, and hands the descriptor on to the
// next: so the counts go on, whoever serves. Root reads it by its name, with pread(2), as nobody
// but root can open it.
//
// A sealed memfd(2) could not grow. But it has no name, and who tells the counts is mostly an
// installer in a container, which has no capability that would get it a descriptor from another
// user's process. What a process that was taken over can do with the file, it can do with its lock
// file as well: write more into it, up to a limit of package survive (limitFiles). It cannot cut
// the file, which would end the other process with SIGBUS: the filter of system calls denies
// ftruncate(2), and the file is root's.
//
// # Reading
//
// Such a process can also write any numbers. They are only ever numbers: none is an index, a length
// or a text, each has a value, and whoever reads them expects none to be larger than the one
// before.
//
// The same memory has what the processes tell each other of the requests that they were answering
// when they died: see package suspects. Root does not read that, and leaves it out of a fresh file.
package counters

import (
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/survive/internal/suspects"
)

// words are what is counted, in the machine's byte order, as it is counted and as it is read.
type words[T any] struct {
	Layout    T
	Starts    T // of a pair, by a call-out: there was none
	Takeovers [len(Causes)]T
	Requests  [len(Kinds)]T
	Errors    [len(Errors)]T     // of answers
	Classes   [len(Bounds) + 1]T // of the time that answers took
	Time      T                  // of all answers, in nanoseconds
	Longest   T                  // answer, in nanoseconds
	Refused   T                  // requests, since they have ended two processes
	Suspects  suspects.Table     // is there for the processes only; see package suspects
}

// layout is the first word, which tells what the others are. The last digits are its number:
// change it with anything that is counted, or with the order of that.
const layout uint64 = 0x636f756e74_000003

// Size is that of the file, in bytes.
const Size = int(unsafe.Sizeof(words[uint64]{}))

// Counters are what a process adds to. Both processes may do so at the same time.
type Counters words[atomic.Uint64]

// Counts are what was read.
type Counts words[uint64]

// Causes of take-overs.
var Causes = [...]string{"crash", "hang", "planned", "upgrade"}

// Kinds of requests. Those that ask for what nobody expects are the first one's.
var Kinds = [...]string{
	"other", "lookup", "getattr", "readlink", "open", "read", "release", "opendir", "readdir", "releasedir", "forget", "statfs",
	"change", "held",
}

const (
	change = 12
	held   = 13
)

// kinds has the kinds of operations that change nothing.
var kinds = [...]uint8{
	devfuse.OpLookup: 1, devfuse.OpGetAttr: 2, devfuse.OpReadlink: 3, devfuse.OpOpen: 4, devfuse.OpRead: 5, devfuse.OpRelease: 6,
	devfuse.OpOpenDir: 7, devfuse.OpReadDir: 8, devfuse.OpReleaseDir: 9, devfuse.OpForget: 10, devfuse.OpBatchForget: 10,
	devfuse.OpStatFS: 11,
}

func kindOf(opcode uint32) uint8 {
	switch {
	case devfuse.Changes(opcode):
		return change
	case opcode < uint32(len(kinds)):
		return kinds[opcode]
	}
	return 0
}

// Errors of answers, by their names in errno(3). Others are the first one's.
var Errors = [...]string{"other", "ENOENT", "ESRCH", "EIO", "EACCES", "EINVAL", "EROFS", "ENOSYS", "ESTALE"}

var errnos = [len(Errors)]unix.Errno{
	0, unix.ENOENT, unix.ESRCH, unix.EIO, unix.EACCES, unix.EINVAL, unix.EROFS, unix.ENOSYS, unix.ESTALE,
}

// errorOf returns the number of an error among them.
func errorOf(errno uint32) int { return max(0, slices.Index(errnos[:], unix.Errno(errno))) }

// Bounds are the upper bounds of the classes of times, but for the last class, which has none.
var Bounds = [...]time.Duration{
	100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second,
}

// Request counts a request that is answered, by its operation.
func (c *Counters) Request(opcode uint32) {
	c.Requests[kindOf(opcode)].Add(1)
}

// Held counts a request that a Holder has answered.
func (c *Counters) Held() { c.Requests[held].Add(1) }

// Answer counts an answer: its error, 0 for none, and how long it took from when it was begun.
func (c *Counters) Answer(errno uint32, took time.Duration) {
	if errno != 0 {
		c.Errors[errorOf(errno)].Add(1)
	}
	class := 0
	for class < len(Bounds) && took > Bounds[class] {
		class++
	}
	c.Classes[class].Add(1)
	nanoseconds := uint64(max(took, 0))
	c.Time.Add(nanoseconds)
	for longest := c.Longest.Load(); nanoseconds > longest && !c.Longest.CompareAndSwap(longest, nanoseconds); {
		longest = c.Longest.Load()
	}
}

// Start counts that a pair was started where there was none.
func (c *Counters) Start() { c.Starts.Add(1) }

// Takeover counts one of the Causes.
func (c *Counters) Takeover(cause string) {
	for i, known := range Causes {
		if cause == known {
			c.Takeovers[i].Add(1)
		}
	}
}
