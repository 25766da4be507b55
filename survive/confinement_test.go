package survive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"example.com/pod-info-fuse/e2e/attack"
	"example.com/pod-info-fuse/internal/testnode"
)

// confined checks what the kernel says of a process of the daemon.
func confined(d testnode.Driver, pid int) {
	t := d.T
	t.Helper()
	status := statusOf(t, pid)
	id := func(n uint32) string { return fmt.Sprintf("%d %[1]d %[1]d %[1]d", n) }
	for name, want := range map[string]string{
		"Uid": id(d.User().Uid), "Gid": id(testnode.DaemonGID), "Groups": "",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapAmb": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "1",
	} {
		if got, present := status[name]; got != want || !present {
			t.Errorf("process %d: %s is %q, want %q", pid, name, got, want)
		}
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads of process %d: %q, %v", pid, tasks, err)
	}
	for _, task := range tasks {
		for _, want := range []string{"\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n", "\nCapEff:\t0000000000000000\n"} {
			// A thread may have ended.
			if text, err := os.ReadFile(task); err == nil && !strings.Contains(string(text), want) {
				t.Errorf("%s: not %q", task, want)
			}
		}
	}
}

func TestBothProcessesAreConfined(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	check := func(when string) {
		t.Helper()
		active, standby := d.Pair()
		confined(d, active)
		confined(d, standby)
		want := &testnode.Confinement{
			UID: d.User().Uid, GID: testnode.DaemonGID, Groups: []uint32{}, Capabilities: "0000000000000000",
			NoNewPrivs: true, Seccomp: true, Landlock: true,
		}
		c := d.Status().Daemon.Confinement
		if !reflect.DeepEqual(c.Active, want) || !reflect.DeepEqual(c.Standby, want) {
			t.Errorf("%s: status says %+v and %+v", when, c.Active, c.Standby)
		}
		if output, err := d.Command("status").Output(); err != nil || !strings.Contains(string(output), "confinement    complete\n") {
			t.Errorf("%s: status: %v: %s", when, err, output)
		}
	}
	check("started")
	// Landlock and seccomp must not pile up with each generation: the kernel takes
	// 16 layers of Landlock.
	for range 20 {
		active, _ := d.Pair()
		testnode.Kill(t, active)
	}
	check("after crashes")
	d.ReplaceBinary(testnode.Newer)
	d.Must("init")
	check("upgraded")
}

// What the attacks do where nothing confines them is shown in e2e/attack.
func TestWhoTakesOverTheDaemonHasGainedNothing(t *testing.T) {
	arrived, end, err := attack.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	d := testnode.Install(t)
	d.ReplaceBinary(testnode.Build(t, "1.2.5", "attack"))
	log := filepath.Join(t.TempDir(), "log")
	testnode.Configure(t, d, fmt.Sprintf(`{"log": %q}`, log))
	d.Mount()
	active, standby := d.Pair()
	if got := arrived(); got != 0 {
		t.Errorf("another service got %d datagrams", got)
	}
	for _, pid := range []int{active, standby} {
		refused, ended := 0, false
		for line := range strings.Lines(testnode.Read(t, log)) {
			_, event, ours := strings.Cut(line, fmt.Sprintf("[%d]: daemon: ", pid))
			switch {
			case !ours:
			case strings.HasPrefix(event, "attack refused: "):
				refused++
				// Not because nobody is there, or because it is no socket.
				if strings.Contains(event, "pod-info-fuse-attack") && !strings.HasSuffix(event, ": operation not permitted\n") {
					t.Errorf("process %d: %s", pid, event)
				}
			case event == "attacks end\n":
				ended = true
			case strings.HasPrefix(event, "attack"):
				t.Errorf("process %d: %s", pid, event)
			}
		}
		if refused < 50 || !ended {
			t.Errorf("process %d: %d attacks were refused, ended %v", pid, refused, ended)
		}
	}
}

func TestOthersSeeNothingInTheRunDirectory(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	d.Pair()
	var paths []string
	for _, pattern := range []string{"", "/*", "/volumes/*"} {
		matches, err := filepath.Glob(d.RunDir + pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, matches...)
	}
	if len(paths) < 10 {
		t.Errorf("the run directory has %q", paths)
	}
	for _, path := range paths {
		if path == d.RunDir+"/fs" {
			continue // what is there now is the file system
		}
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o027 != 0 || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s is %v of user %d", path, info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		}
	}
	// Nor can anybody of the daemon's group command it.
	if info, err := os.Lstat(d.RunDir + "/control"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("control socket: %v, %v", info, err)
	}
}
