package proc

import (
	"os"
	"slices"
	"strconv"
	"testing"
)

func TestPIDsAreThoseOfPrograms(t *testing.T) {
	pids, err := PIDs()
	if err != nil || !slices.Contains(pids, os.Getpid()) || !slices.Contains(pids, 1) {
		t.Errorf("%v, %v", pids, err)
	}
	if !hasThreadDaemon() {
		t.Skip("this PID namespace has no kernel threads")
	}
	for _, pid := range pids {
		// A kernel thread has no memory, and its command line is empty. So it is with who has ended.
		status, err := StatusIn("/proc/" + strconv.Itoa(pid))
		if err == nil && status["VmSize"] == "" && status["PPid"] == strconv.Itoa(threadDaemon) {
			t.Errorf("%d, %s, is a thread of the kernel's", pid, status["Name"])
		}
	}
}
