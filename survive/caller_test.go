package survive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// A job that gives way to all others may be the first to call the driver.
func TestTheDaemonIsScheduledAsUsual(t *testing.T) {
	const usual = "0 0 0\n"
	d := testnode.Install(t)
	called := d
	called.On = []string{"chrt", "--batch", "0", "ionice", "-c", "3", "nice", "-n", "15"}
	called.Mount()
	check := func(when string) {
		t.Helper()
		active, standby := d.Pair()
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
	d.ReplaceBinary(testnode.Newer)
	called.Must("init")
	check("upgraded")
}

// The first caller may be a debug pod, which is the first that the OOM killer ends, with limits and
// a processor of its own.
func TestTheDaemonKeepsNoLimitsOfItsCaller(t *testing.T) {
	d := testnode.Install(t)
	called := d
	called.On = []string{"prlimit", "--cpu=1000:", "--fsize=10000000:", "--nofile=64:", "--as=8000000000:", "taskset", "-c", "0",
		"sh", "-c", `echo 1000 >/proc/self/oom_score_adj; exec "$@"`, "sh"}
	called.Mount()
	processors := statusOf(t, os.Getpid())["Cpus_allowed_list"]
	check := func(when string) {
		t.Helper()
		active, standby := d.Pair()
		for _, pid := range []int{active, standby} {
			limits := map[string]string{}
			for line := range strings.Lines(testnode.Read(t, fmt.Sprintf("/proc/%d/limits", pid))) {
				name, values := strings.TrimSpace(line[:26]), strings.Fields(line[26:])
				limits[name] = values[0]
			}
			for name, want := range map[string]string{
				"Max cpu time": "unlimited", "Max file size": "65536", "Max address space": "unlimited", "Max open files": "128",
			} {
				if got := limits[name]; got != want {
					t.Errorf("%s: %s of process %d is %q, want %q", when, name, pid, got, want)
				}
			}
			status := statusOf(t, pid)
			if got := status["Cpus_allowed_list"]; got != processors {
				t.Errorf("%s: process %d has the processors %s, want %s", when, pid, got, processors)
			}
			if got := status["THP_enabled"]; got != "0" {
				t.Errorf("%s: process %d may have huge pages, %q", when, pid, got)
			}
		}
		s := d.Status().Daemon.OOMScoreAdj
		// A machine without CAP_SYS_RESOURCE does not let it have less.
		if s.Active == nil || s.Standby == nil || *s.Active > 0 || *s.Standby > 0 {
			t.Errorf("%s: status tells of oom_score_adj %+v", when, s)
		} else if want := fmt.Sprintf("oom_score_adj  %d\n", *s.Active); *s.Active == *s.Standby {
			if output, err := d.Command("status").Output(); err != nil || !strings.Contains(string(output), want) {
				t.Errorf("%s: status: %v, no %q in\n%s", when, err, want, output)
			}
		}
	}
	check("started")
	d.ReplaceBinary(testnode.Newer)
	called.Must("init")
	check("upgraded")
}

// A standby that can be traced when it is born is told of.
func TestStatusTellsOfABinaryThatCanBeRead(t *testing.T) {
	d := testnode.Install(t)
	d.ReplaceBinary(testnode.CopyOf(t, testnode.Binary))
	if err := os.Chmod(d.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	d.Mount()
	d.Pair()
	const want = "confinement    lacks a binary that nobody can read (chmod 0711)\n"
	if output, err := d.Command("status").Output(); err != nil || !strings.Contains(string(output), want) {
		t.Errorf("status: %v, no %q in\n%s", err, want, output)
	}
}

// scheduling tells a thread's nice value, scheduling policy and I/O class, as numbers.
func scheduling(t *testing.T, task string) string {
	t.Helper()
	_, fields, _ := strings.Cut(testnode.Read(t, task, "stat"), ") ")
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
