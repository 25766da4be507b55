package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// counters are what the processes of a server have done so far.
type counters struct {
	cpu     float64 // µs
	replies int64   // writes, and what is written are replies to requests

	waits, switches int64 // of all threads: voluntary context switches, and all
}

func countersOf(pids []int) (c counters, err error) {
	for _, pid := range pids {
		var cpu unix.Timespec
		// The CPU clock of a process has all of its threads, ended ones too, in
		// nanoseconds (linux/posix-timers.h, MAKE_PROCESS_CPUCLOCK).
		const scheduled = 2
		if err := unix.ClockGettime(int32(^pid<<3|scheduled), &cpu); err != nil {
			return c, fmt.Errorf("CPU clock of process %d: %w", pid, err)
		}
		c.cpu += float64(cpu.Nano()) / 1000
		writes, err := fieldsOf(fmt.Sprintf("/proc/%d/io", pid), "syscw:")
		if err != nil {
			return c, err
		}
		c.replies += writes
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, thread := range threads {
			// A thread may have ended meanwhile.
			waits, _ := fieldsOf(thread, "voluntary_ctxt_switches:")
			others, _ := fieldsOf(thread, "nonvoluntary_ctxt_switches:")
			c.waits, c.switches = c.waits+waits, c.switches+waits+others
		}
	}
	return c, nil
}

// fieldsOf is the sum of some fields of a file in /proc with lines NAME NUMBER.
func fieldsOf(path string, names ...string) (sum int64, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		var name string
		var value int64
		if n, _ := fmt.Sscan(lines.Text(), &name, &value); n < 2 {
			continue
		}
		for _, wanted := range names {
			if name == wanted {
				sum += value
			}
		}
	}
	return sum, nil
}
