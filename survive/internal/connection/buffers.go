package connection

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Buffers are the memory that requests are read into and replies are written from. A
// process makes them once, before it can be asked for anything.
//
// When the kernel copies a request, it has taken the request from the queue already. If the
// copy fails, the reader gets EIO, and no successor ever sees the request (fs/fuse/dev.c,
// fuse_dev_do_read). And it fails where the page must be found first, while SIGKILL waits for
// the thread (mm/gup.c, __get_user_pages, answers EINTR to a process that is being killed).
// So the pages are there, and stay: they are touched, locked, and kept out of huge pages,
// into which the kernel would gather them.
//
// Of a reply the kernel copies the header before it takes the request. Each buffer
// begins with a page, so that a header that could be copied has the rest of a short
// reply in the same page; a kill before that leaves the request to a successor.
type Buffers struct {
	Options
	memory []byte
}

// LockedMemory is what RLIMIT_MEMLOCK must allow a process with so many workers, in
// bytes.
func (o Options) LockedMemory(workers int) int {
	return workers * (wholePages(requestSize) + wholePages(o.replySize()))
}

// NewBuffers makes the buffers of so many workers for a connection. They are never released. report
// is told if they cannot be locked.
func NewBuffers(workers int, agreed Params, report func(problem string)) (Buffers, error) {
	b := Buffers{Options: agreed.Options}
	size := agreed.LockedMemory(workers)
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	var err error
	if b.memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_LOCKED); err != nil {
		report(fmt.Sprintf("lock %d bytes of memory: %v; a reader may get an error when this process is killed", size, err))
		if b.memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags); err != nil {
			return Buffers{}, fmt.Errorf("allocate buffers: %w", err)
		}
	}
	// EINVAL: this kernel has no huge pages.
	_ = unix.Madvise(b.memory, unix.MADV_NOHUGEPAGE)
	// mmap(2) does not say whether it could populate them.
	for i := 0; i < size; i += os.Getpagesize() {
		b.memory[i] = 1
	}
	return b, nil
}

// workers is the number of workers that have buffers.
func (b Buffers) workers() int { return len(b.memory) / b.LockedMemory(1) }

// of returns the buffers of a worker.
func (b Buffers) of(worker int) (request, reply []byte) {
	at := worker * b.LockedMemory(1)
	request = b.memory[at:][:requestSize:requestSize]
	reply = b.memory[at+wholePages(requestSize):][:b.replySize():b.replySize()]
	return request, reply
}

func wholePages(bytes int) int {
	page := os.Getpagesize()
	return (bytes + page - 1) / page * page
}
