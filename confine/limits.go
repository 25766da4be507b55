package confine

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// limits bound what a process of the pair can take of the node, far above what
// it needs.
var limits = []struct {
	name     string
	resource int
	most     uint64
}{
	{"descriptors", unix.RLIMIT_NOFILE, 128}, // it has about 20
	// Of the user, so of the daemons of all drivers on the node: each process has
	// about 8.
	{"threads", unix.RLIMIT_NPROC, 1024},
	{"bytes of memory", unix.RLIMIT_DATA, 512 << 20}, // Go reserves 64 MiB at a time
	{"bytes of a core file", unix.RLIMIT_CORE, 0},
	{"bytes of messages", unix.RLIMIT_MSGQUEUE, 0},
	{"bytes of locked memory", unix.RLIMIT_MEMLOCK, 0},
}

// limit lowers the limits. What is lower already stays.
func limit() error {
	for _, l := range limits {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &now); err != nil {
			return fmt.Errorf("ask for the limit of %s: %w", l.name, err)
		}
		most := min(now.Max, l.most)
		// The standard library's, which then does not give children the old limit
		// of descriptors back.
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit %s to %d: %w", l.name, most, err)
		}
	}
	return nil
}
