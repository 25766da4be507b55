package proc

import (
	"os"
	"path/filepath"
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
	var kernel []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		status, err := StatusIn(dir)
		if err == nil && status["PPid"] == strconv.Itoa(threadDaemon) && status["VmSize"] == "" {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			kernel = append(kernel, pid)
		}
	}
	for _, pid := range kernel {
		if slices.Contains(pids, pid) {
			t.Errorf("%d is a thread of the kernel's", pid)
		}
	}
	if len(kernel) == 0 {
		t.Error("the kernel has no threads")
	}
}
