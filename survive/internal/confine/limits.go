package confine

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// limits bound the node's resources that a process of the pair can take, far above its needs.
// The kernel counts none of them for the user, which other processes may have; see package
// cgroup for threads, and for the memory of both.
var limits = []struct {
	name     string
	resource int
	most     uint64
}{
	{"descriptors", unix.RLIMIT_NOFILE, 128},         // it has about 20
	{"bytes of memory", unix.RLIMIT_DATA, 512 << 20}, // Go reserves 64 MiB at a time
	{"bytes of a core file", unix.RLIMIT_CORE, 0},
	{"bytes of messages", unix.RLIMIT_MSGQUEUE, 0},
	// The buffers of requests (connection.Options.LockedMemory), where they are the largest.
	{"bytes of locked memory", unix.RLIMIT_MEMLOCK, 1 << 20},
}

// limit lowers the limits. Lower ones stay.
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
