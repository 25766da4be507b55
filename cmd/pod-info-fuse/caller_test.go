package main_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A job that gives way to all others may be the first to call the driver.
func TestTheDaemonIsScheduledAsUsual(t *testing.T) {
	const usual = "0 0 0\n"
	d := install(t)
	called := d
	called.on = []string{"chrt", "--batch", "0", "ionice", "-c", "3", "nice", "-n", "15"}
	called.mount()
	check := func(when string) {
		t.Helper()
		active, standby := d.pair()
		for _, pid := range []int{active, standby} {
			tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
			if err != nil || len(tasks) < 2 {
				t.Fatalf("threads of process %d: %q, %v", pid, tasks, err)
			}
			for _, task := range tasks {
				if got := scheduling(t, task); got != usual {
					t.Errorf("%s: %s has nice, policy and I/O class %s, want %s", when, task, got, usual)
				}
			}
		}
	}
	check("started")
	d.replaceBinary(newer)
	called.must("init")
	check("upgraded")
}

// scheduling tells a thread's nice value, scheduling policy and I/O class, as numbers.
func scheduling(t *testing.T, task string) string {
	t.Helper()
	_, fields, _ := strings.Cut(read(t, task, "stat"), ") ")
	stat := strings.Fields(fields) // from the third on (man 5 proc_pid_stat)
	const whoProcess = 1
	id := 0
	if _, err := fmt.Sscan(filepath.Base(task), &id); err != nil {
		t.Fatal(err)
	}
	priority, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, whoProcess, uintptr(id), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return fmt.Sprintln(stat[19-3], stat[41-3], priority>>13)
}
