package harness

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Kill kills a process and waits until it is gone.
func Kill(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return Eventually(pairLimit, func() error {
		// What waits for somebody to ask how it ended is gone, too.
		if now := processState(pid); now != "" && now != "Z" && now != "X" {
			return fmt.Errorf("process %d was killed and is there, its state is %s", pid, now)
		}
		return nil
	})
}

// processState is the letter that ps(1) shows for a process, none where there is
// no such process.
func processState(pid int) string { return stateIn(fmt.Sprintf("/proc/%d", pid)) }

// stateIn is that letter for a directory of a process or of a thread.
func stateIn(dir string) string {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return ""
	}
	// The name stands before it, and may have anything in it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}
