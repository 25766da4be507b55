package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const podUID = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"

// goodOptions are what a kubelet passes for a pod.
const goodOptions = `{"kubernetes.io/fsType":"","kubernetes.io/pod.name":"web-0","kubernetes.io/pod.namespace":"shop","kubernetes.io/pod.uid":"` + podUID + `","kubernetes.io/pvOrVolumeName":"info","kubernetes.io/readwrite":"rw","kubernetes.io/serviceAccount.name":"default"}`

// installed is a driver in a plugin directory of its own, under a name of its
// own, so that it shares nothing with any other on this machine.
type installed struct {
	t      *testing.T
	name   string // vendor/driver
	path   string // of the binary
	runDir string
	on     []string // the command that executes others on its node; none: it is this machine
}

var installations atomic.Int64

// place returns a place where no driver is yet. When the test ends it stops what
// has been installed there, and checks that nothing is left.
func place(t *testing.T) installed {
	t.Helper()
	vendor := fmt.Sprintf("%s%d", testVendor, installations.Add(1))
	path := filepath.Join(t.TempDir(), vendor+"~pod-info-fuse", "pod-info-fuse")
	d := installed{t: t, name: vendor + "/pod-info-fuse", path: path, runDir: "/run/pod-info-fuse/" + vendor + "~pod-info-fuse"}
	t.Cleanup(func() {
		if output, err := exec.Command(binary, "stop", "--force", "--driver", d.name).CombinedOutput(); err != nil {
			t.Errorf("stop --force: %v: %s", err, output)
		}
		if _, err := os.Stat(d.runDir); !os.IsNotExist(err) {
			t.Errorf("stop --force left %s: %v", d.runDir, err)
		}
	})
	return d
}

// install puts the driver into its place.
func install(t *testing.T) installed {
	t.Helper()
	d := place(t)
	if err := os.Mkdir(filepath.Dir(d.path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(binary, d.path); err != nil {
		t.Fatal(err)
	}
	return d
}

// by is the same driver, called by another program of it.
func (d installed) by(program string) installed {
	d.t.Helper()
	d.path = filepath.Join(d.t.TempDir(), filepath.Base(filepath.Dir(d.path)), filepath.Base(d.path))
	if err := errors.Join(os.Mkdir(filepath.Dir(d.path), 0o755), os.Link(program, d.path)); err != nil {
		d.t.Fatal(err)
	}
	return d
}

// command is a call of the driver, in a cgroup namespace of its own: there its
// cgroup is the root, which the daemon need not leave. What leaving does is tested
// in package cgroup and in e2e/systemd; here it would take the daemons out of
// whatever limits the tests are run with.
func (d installed) command(args ...string) *exec.Cmd {
	return d.execute(append([]string{d.path}, args...))
}

// execute is a command on the driver's node.
func (d installed) execute(words []string) *exec.Cmd {
	words = slices.Concat(d.on, words)
	command := exec.Command(words[0], words[1:]...)
	if d.on == nil {
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
	}
	return command
}

// answer is what a call-out prints, as another program sees it.
type answer struct {
	Status       string          `json:"status"`
	Message      string          `json:"message"`
	Capabilities map[string]bool `json:"capabilities"`
	Invalid      bool            `json:"invalid"`
}

// call executes a call-out as the kubelet does, and checks what holds for all
// of them: one line of JSON on stdout, nothing on stderr, exit status 0.
func (d installed) call(args ...string) answer {
	d.t.Helper()
	return d.run(d.command(args...))
}

func (d installed) run(command *exec.Cmd) answer {
	d.t.Helper()
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		d.t.Errorf("%q: %v", command.Args, err)
	}
	if stderr.Len() > 0 {
		d.t.Errorf("%q: stderr: %s", command.Args, stderr.String())
	}
	if strings.Count(stdout.String(), "\n") != 1 {
		d.t.Errorf("%q: not one line: %q", command.Args, stdout.String())
	}
	var a answer
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		d.t.Fatalf("%q: the answer is not what was expected: %v", command.Args, err)
	}
	return a
}

// must executes a call-out that has to succeed.
func (d installed) must(args ...string) {
	d.t.Helper()
	if a := d.call(args...); a.Status != "Success" {
		d.t.Fatalf("%q: %+v", args, a)
	}
}

// mount mounts a volume on a new directory, which it returns.
func (d installed) mount() string {
	d.t.Helper()
	dir := filepath.Join(d.t.TempDir(), "volume")
	if err := os.Mkdir(dir, 0o750); err != nil {
		d.t.Fatal(err)
	}
	d.must("mount", dir, goodOptions)
	return dir
}

// status is what status -o json prints, as a script sees it.
type status struct {
	Driver  string
	Version string
	RunDir  string
	Mount   struct{ State string }
	Daemon  struct {
		Active, Standby *struct {
			PID     int
			Version string
		}
		Takeovers, Upgrades              int
		LastTakeover                     struct{ Cause string }
		Confinement                      struct{ Active, Standby *confinement }
		Cgroup                           string
		Limits                           struct{ Threads, Memory uint64 }
		OOMScoreAdj                      struct{ Active, Standby *int }
		CgroupError, UpgradeError, Error string
	}
	SELinux struct {
		Mode, Context, Error string
		Boolean              struct{ Name, State string }
	}
	Facts struct {
		Count   int
		LeftOut []struct{ Name, Reason string }
		Stale   bool
		Error   string
	}
	Volumes []struct {
		ID, Dir, PodUID, PodName, PodNamespace, State string
	}
	ConfigError string
}

// status asks the driver. It waits for the active process for a second, in which a machine may
// stand still: so it is asked again when it says that there was no answer.
func (d installed) status() (s status) {
	d.t.Helper()
	for range 3 {
		output, err := d.command("status", "-o", "json").Output()
		if err != nil {
			d.t.Fatalf("status: %v", err)
		}
		s = status{}
		if err := json.Unmarshal(output, &s); err != nil {
			d.t.Fatalf("status: %v: %s", err, output)
		}
		if !strings.HasSuffix(s.Daemon.Error, "does not answer") {
			break
		}
	}
	return s
}

// daemon returns the PID of the active process.
func (d installed) daemon() int {
	d.t.Helper()
	active := d.status().Daemon.Active
	if active == nil {
		d.t.Fatal("there is no daemon")
	}
	return active.PID
}

// pair waits until there are an active process and a standby that is ready,
// and returns their PIDs.
func (d installed) pair() (active, standby int) {
	d.t.Helper()
	eventually(d.t, "there is a standby", func() bool {
		s := d.status().Daemon
		if s.Active == nil || s.Standby == nil || !alive(s.Active.PID) || !alive(s.Standby.PID) {
			return false
		}
		active, standby = s.Active.PID, s.Standby.PID
		return true
	})
	return active, standby
}

// killPair kills both processes at once, so that nobody can take over.
func (d installed) killPair() {
	d.t.Helper()
	active, standby := d.pair()
	// Stopped, the standby cannot notice that the active one dies.
	suspend(d.t, standby)
	kill(d.t, active)
	kill(d.t, standby)
}

// records lists the files that records are kept in.
func (d installed) records() []string {
	paths, _ := filepath.Glob(d.runDir + "/volumes/*")
	hidden, _ := filepath.Glob(d.runDir + "/volumes/.*")
	return append(paths, hidden...)
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// mountsOn counts the mounts stacked on a directory, by mountinfo, which
// nobody needs to answer.
func mountsOn(t *testing.T, dir string) (count int) {
	t.Helper()
	escaped := strings.NewReplacer(" ", `\040`, "\n", `\012`, `\`, `\134`).Replace(dir)
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		if fields := strings.Fields(line); fields[4] == escaped {
			count++
		}
	}
	return count
}

// forever is how long anything may take, on any machine, before it is said to hang.
const forever = 2 * time.Minute

// eventually waits for a condition. It is asked less and less often, for a third of the time
// at most: it may execute the driver, and other tests need the CPUs.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const least, most = time.Millisecond, 100 * time.Millisecond
	pause := least
	for deadline := time.Now().Add(forever); ; {
		asked := time.Now()
		if condition() {
			return
		} else if asked.After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(max(pause, 2*time.Since(asked)))
		pause = min(2*pause, most)
	}
}

// suspend stops a process, and waits until it has stopped.
func suspend(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process has stopped", func() bool {
		return strings.Contains(read(t, "/proc", strconv.Itoa(pid), "stat"), ") T ")
	})
}

// alive tells whether a process runs; a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
