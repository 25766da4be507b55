package testnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/pod-info-fuse/survive/volume"
)

// Driver is a driver in a plugin directory of its own, under a name of its
// own, so that it shares nothing with any other on this machine.
type Driver struct {
	T      *testing.T
	Name   string // vendor/driver
	Path   string // of the binary
	RunDir string
	On     []string // the command that executes others on its node; none: it is this machine
}

var installations atomic.Int64

// Place returns a place where no driver is yet. When the test ends it stops what
// has been installed there, and checks that nothing is left.
func Place(t *testing.T) Driver {
	t.Helper()
	Require(t)
	vendor := fmt.Sprintf("%s%d", TestVendor, installations.Add(1))
	path := filepath.Join(t.TempDir(), vendor+"~pod-info-fuse", "pod-info-fuse")
	d := Driver{T: t, Name: vendor + "/pod-info-fuse", Path: path, RunDir: "/run/pod-info-fuse/" + vendor + "~pod-info-fuse"}
	t.Cleanup(func() {
		if output, err := exec.Command(Binary, "stop", "--force", "--driver", d.Name).CombinedOutput(); err != nil {
			t.Errorf("stop --force: %v: %s", err, output)
		}
		if _, err := os.Stat(d.RunDir); !os.IsNotExist(err) {
			t.Errorf("stop --force left %s: %v", d.RunDir, err)
		}
	})
	return d
}

// Install puts the driver into its place.
func Install(t *testing.T) Driver {
	t.Helper()
	d := Place(t)
	if err := os.Mkdir(filepath.Dir(d.Path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(Binary, d.Path); err != nil {
		t.Fatal(err)
	}
	return d
}

// By is the same driver, called by another program of it.
func (d Driver) By(program string) Driver {
	d.T.Helper()
	d.Path = filepath.Join(d.T.TempDir(), filepath.Base(filepath.Dir(d.Path)), filepath.Base(d.Path))
	if err := errors.Join(os.Mkdir(filepath.Dir(d.Path), 0o755), os.Link(program, d.Path)); err != nil {
		d.T.Fatal(err)
	}
	return d
}

// ReplaceBinary puts another version in the driver's place, as an installer
// does.
func (d Driver) ReplaceBinary(path string) {
	d.T.Helper()
	staged := filepath.Join(filepath.Dir(d.Path), ".new")
	if err := errors.Join(os.Link(path, staged), os.Rename(staged, d.Path)); err != nil {
		d.T.Fatal(err)
	}
}

// Removed makes the driver's place empty.
func (d Driver) Removed() {
	d.T.Helper()
	if err := os.RemoveAll(filepath.Dir(d.Path)); err != nil {
		d.T.Fatal(err)
	}
}

// Configure writes the driver's configuration.
func Configure(t *testing.T, d Driver, config string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(d.Path), "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Command is a call of the driver, in a cgroup namespace of its own: there its
// cgroup is the root, which the daemon need not leave. What leaving does is tested
// in package cgroup and in e2e/systemd; here it would take the daemons out of
// whatever limits the tests are run with.
func (d Driver) Command(args ...string) *exec.Cmd {
	return d.Execute(append([]string{d.Path}, args...))
}

// Execute is a command on the driver's node.
func (d Driver) Execute(words []string) *exec.Cmd {
	words = slices.Concat(d.On, words)
	command := exec.Command(words[0], words[1:]...)
	if d.On == nil {
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
	}
	return command
}

// Answer is what a call-out prints, as another program sees it.
type Answer struct {
	Status       string          `json:"status"`
	Message      string          `json:"message"`
	Capabilities map[string]bool `json:"capabilities"`
	Invalid      bool            `json:"invalid"`
}

// Call executes a call-out as the kubelet does, and checks what holds for all
// of them: one line of JSON on stdout, nothing on stderr, exit status 0.
func (d Driver) Call(args ...string) Answer {
	d.T.Helper()
	return d.Run(d.Command(args...))
}

// Run executes a call-out by a command of [Driver.Command] or of another program.
func (d Driver) Run(command *exec.Cmd) Answer {
	d.T.Helper()
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		d.T.Errorf("%q: %v", command.Args, err)
	}
	if stderr.Len() > 0 {
		d.T.Errorf("%q: stderr: %s", command.Args, stderr.String())
	}
	if strings.Count(stdout.String(), "\n") != 1 {
		d.T.Errorf("%q: not one line: %q", command.Args, stdout.String())
	}
	var a Answer
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		d.T.Fatalf("%q: the answer is not what was expected: %v", command.Args, err)
	}
	return a
}

// Must executes a call-out that has to succeed.
func (d Driver) Must(args ...string) {
	d.T.Helper()
	if a := d.Call(args...); a.Status != "Success" {
		d.T.Fatalf("%q: %+v", args, a)
	}
}

// CallThatEnds is call for a call-out that may hang. Not even SIGKILL ends one that waits for
// an answer to a request that was read.
func (d Driver) CallThatEnds(args ...string) (a Answer) {
	d.T.Helper()
	done := make(chan bool)
	go func() { a = d.Call(args...); close(done) }()
	select {
	case <-done:
	case <-time.After(Forever):
		d.T.Fatalf("%q has not ended after %v", args[0], Forever)
	}
	return a
}

// PodUID is the pod of [GoodOptions].
const PodUID = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"

// GoodOptions are what a kubelet passes for a pod.
const GoodOptions = `{"kubernetes.io/fsType":"","kubernetes.io/pod.name":"web-0","kubernetes.io/pod.namespace":"shop","kubernetes.io/pod.uid":"` + PodUID + `","kubernetes.io/pvOrVolumeName":"info","kubernetes.io/readwrite":"rw","kubernetes.io/serviceAccount.name":"default"}`

// UIDOption is the option that names the pod.
const UIDOption = `"kubernetes.io/pod.uid":"` + PodUID + `"`

// Edit returns the good options with one piece replaced.
func Edit(old, replacement string) string { return strings.Replace(GoodOptions, old, replacement, 1) }

// Mount mounts a volume on a new directory, which it returns.
func (d Driver) Mount() string {
	d.T.Helper()
	dir := filepath.Join(d.T.TempDir(), "volume")
	if err := os.Mkdir(dir, 0o750); err != nil {
		d.T.Fatal(err)
	}
	d.Must("mount", dir, GoodOptions)
	return dir
}

// KubeletDir makes a directory for a volume such as a kubelet makes.
func (d Driver) KubeletDir(uid string) string {
	d.T.Helper()
	dir := filepath.Join(d.T.TempDir(), "pods", uid, "volumes", filepath.Base(d.RunDir), "info")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		d.T.Fatal(err)
	}
	return dir
}

// PodGoes has the kubelet remove the directory of a pod.
func (d Driver) PodGoes(pod string) {
	d.T.Helper()
	if err := os.RemoveAll(pod); err != nil {
		d.T.Fatal(err)
	}
}

// Records lists the files that records are kept in.
func (d Driver) Records() []string {
	paths, _ := filepath.Glob(d.RunDir + "/volumes/*")
	hidden, _ := filepath.Glob(d.RunDir + "/volumes/.*")
	return append(paths, hidden...)
}

// LeftNothing checks that a failed call-out left no mount, record or process.
func LeftNothing(t *testing.T, d Driver, dir string) {
	t.Helper()
	if count := MountsOn(t, dir); count != 0 {
		t.Errorf("%d mounts left on %s", count, dir)
	}
	if left := d.Records(); len(left) != 0 {
		t.Errorf("records left: %q", left)
	}
	if s := d.Status(); s.Mount.State != "absent" || s.Daemon.Active != nil {
		t.Errorf("left over: %+v", s)
	}
}

// Gone checks that nothing of a volume is left: the kubelet can remove the
// directory with rmdir, as it does, and then that of the pod, if it is in one.
func Gone(t *testing.T, d Driver, dir string) {
	t.Helper()
	if count := MountsOn(t, dir); count != 0 {
		t.Errorf("%d mounts left on %s", count, dir)
	}
	if err := os.Remove(dir); err != nil {
		t.Errorf("the kubelet's rmdir: %v", err)
	}
	if pods, rest, ok := volume.SplitDir(dir); ok {
		uid, _, _ := strings.Cut(rest, "/")
		d.PodGoes(filepath.Join(pods, uid))
		d.Must("init")
	}
	if left := d.Records(); len(left) != 0 {
		t.Errorf("records left: %q", left)
	}
}

// Daemon returns the PID of the active process.
func (d Driver) Daemon() int {
	d.T.Helper()
	active := d.Status().Daemon.Active
	if active == nil {
		d.T.Fatal("there is no daemon")
	}
	return active.PID
}

// Pair waits until there are an active process and a standby that is ready,
// and returns their PIDs.
func (d Driver) Pair() (active, standby int) {
	d.T.Helper()
	Eventually(d.T, "there is a standby", func() bool {
		s := d.Status().Daemon
		if s.Active == nil || s.Standby == nil || !Alive(s.Active.PID) || !Alive(s.Standby.PID) {
			return false
		}
		active, standby = s.Active.PID, s.Standby.PID
		return true
	})
	return active, standby
}

// KillPair kills both processes at once, so that nobody can take over.
func (d Driver) KillPair() {
	d.T.Helper()
	active, standby := d.Pair()
	// Stopped, the standby cannot notice that the active one dies.
	Suspend(d.T, standby)
	Kill(d.T, active)
	Kill(d.T, standby)
}

// StopPair stops both processes, so that nobody answers or takes over.
func (d Driver) StopPair() {
	d.T.Helper()
	active, standby := d.Pair()
	// Its lock is what it is found by.
	Eventually(d.T, "the standby has its lock", func() bool {
		return strings.Contains(Read(d.T, "/proc/locks"), fmt.Sprintf(" %d ", standby))
	})
	for _, pid := range []int{standby, active} {
		Suspend(d.T, pid)
	}
}

// DaemonsOf lists the processes that run a driver's binary as its daemon.
func DaemonsOf(d Driver) (pids []string) {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		if line, _ := os.ReadFile(path); strings.HasPrefix(string(line), d.Path+"\x00serve\x00") {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// PluginDir is the plugin directory that the driver has for itself.
func (d Driver) PluginDir() string { return filepath.Dir(filepath.Dir(d.Path)) }

// Installer is a command of the installer, executed from where a version was
// built, for the driver's place.
func (d Driver) Installer(version, command string, args ...string) *exec.Cmd {
	return d.Execute(append([]string{version, command, "--plugin-dir", d.PluginDir(), "--driver", d.Name}, args...))
}

// Installs runs the installer, which must succeed, and returns what it prints.
func (d Driver) Installs(version string, args ...string) string {
	d.T.Helper()
	output, err := d.Installer(version, "install", args...).CombinedOutput()
	if err != nil {
		d.T.Fatalf("install %q: %v: %s", args, err, output)
	}
	return string(output)
}

// Serves checks that the driver is executed and does its work.
func (d Driver) Serves() {
	d.T.Helper()
	d.Must("init")
	dir := d.Mount()
	if got := Read(d.T, dir, "pod.uid"); got != fmt.Sprintln(PodUID) {
		d.T.Errorf("pod.uid is %q", got)
	}
	d.Must("unmount", dir)
}
