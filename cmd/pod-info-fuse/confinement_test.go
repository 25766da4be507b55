package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"example.com/pod-info-fuse/e2e/attack"
)

// confinement is a process's part of .daemon.confinement, as a script sees it.
type confinement struct {
	UID, GID             uint32
	Groups               []uint32
	Capabilities         string
	NoNewPrivs, Dumpable bool
	Seccomp, Landlock    bool
	ReadableBinary       bool
}

// daemonGID is the group of every daemon of this program.
const daemonGID = 4200000001

// user is the user of the daemon, which root has noted.
func (d installed) user() syscall.Credential {
	d.t.Helper()
	uid, err := strconv.ParseUint(read(d.t, d.runDir, "user"), 10, 32)
	if err != nil {
		d.t.Fatal(err)
	}
	return syscall.Credential{Uid: uint32(uid), Gid: daemonGID}
}

// confined checks what the kernel says of a process of the daemon.
func (d installed) confined(pid int) {
	t := d.t
	t.Helper()
	status := statusOf(t, pid)
	id := func(n uint32) string { return fmt.Sprintf("%d %[1]d %[1]d %[1]d", n) }
	for name, want := range map[string]string{
		"Uid": id(d.user().Uid), "Gid": id(daemonGID), "Groups": "",
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
	d := install(t)
	d.mount()
	check := func(when string) {
		t.Helper()
		active, standby := d.pair()
		d.confined(active)
		d.confined(standby)
		want := &confinement{
			UID: d.user().Uid, GID: daemonGID, Groups: []uint32{}, Capabilities: "0000000000000000",
			NoNewPrivs: true, Seccomp: true, Landlock: true,
		}
		c := d.status().Daemon.Confinement
		if !reflect.DeepEqual(c.Active, want) || !reflect.DeepEqual(c.Standby, want) {
			t.Errorf("%s: status says %+v and %+v", when, c.Active, c.Standby)
		}
		if output, err := d.command("status").Output(); err != nil || !strings.Contains(string(output), "confinement    complete\n") {
			t.Errorf("%s: status: %v: %s", when, err, output)
		}
	}
	check("started")
	// Landlock and seccomp must not pile up with each generation: the kernel takes
	// 16 layers of Landlock.
	for range 20 {
		active, _ := d.pair()
		kill(t, active)
	}
	check("after crashes")
	d.replaceBinary(newer)
	d.must("init")
	check("upgraded")
}

// What the attacks do where nothing confines them is shown in e2e/attack.
func TestWhoTakesOverTheDaemonHasGainedNothing(t *testing.T) {
	arrived, end, err := attack.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	d := install(t)
	d.replaceBinary(attacker)
	log := filepath.Join(t.TempDir(), "log")
	configure(t, d, fmt.Sprintf(`{"log": %q}`, log))
	d.mount()
	active, standby := d.pair()
	if got := arrived(); got != 0 {
		t.Errorf("another service got %d datagrams", got)
	}
	for _, pid := range []int{active, standby} {
		refused, ended := 0, false
		for line := range strings.Lines(read(t, log)) {
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
	d := install(t)
	d.mount()
	d.pair()
	var paths []string
	for _, pattern := range []string{"", "/*", "/volumes/*"} {
		matches, err := filepath.Glob(d.runDir + pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, matches...)
	}
	if len(paths) < 10 {
		t.Errorf("the run directory has %q", paths)
	}
	for _, path := range paths {
		if path == d.runDir+"/fs" {
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
	if info, err := os.Lstat(d.runDir + "/control"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("control socket: %v, %v", info, err)
	}
}
