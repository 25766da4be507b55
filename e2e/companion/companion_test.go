package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/builds"
)

// intoVariable has this binary go into a directory.
const intoVariable = "COMPANION_TEST_INTO"

func TestMain(m *testing.M) {
	if dir := os.Getenv(intoVariable); dir != "" {
		// EINTR is for who is frozen meanwhile, too.
		for unix.Stat(filepath.Join(dir, "nothing"), new(unix.Stat_t)) == unix.EINTR {
		}
		return
	}
	var err error
	if versions, err = os.MkdirTemp("", "companion-test-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(versions)
	os.Exit(status)
}

// versions is the directory of those that were built.
var versions string

// installed is the driver, as a kubelet has it.
type installed struct {
	t    *testing.T
	path string
}

func install(t *testing.T) installed {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	// A name of its own on this machine: cgroups and the run directory have it.
	d := installed{t, filepath.Join(t.TempDir(), fmt.Sprintf("test-%d~companion", rand.Uint32()), "companion")}
	if err := os.MkdirAll(filepath.Dir(d.path), 0o755); err != nil {
		t.Fatal(err)
	}
	d.becomes("1.0.0")
	t.Cleanup(func() { d.call("stop", "--force") })
	return d
}

// becomes puts a version in the place of the one that is there. A system call that is denied ends
// its processes.
func (d installed) becomes(version string) {
	d.t.Helper()
	built := filepath.Join(versions, version)
	if _, err := os.Stat(built); err != nil {
		if err := builds.Build(built, ".", "-s -w -X main.version="+version, "strict"); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := errors.Join(os.Link(built, d.path+".new"), os.Rename(d.path+".new", d.path)); err != nil {
		d.t.Fatal(err)
	}
}

func (d installed) call(args ...string) string {
	d.t.Helper()
	command := exec.Command(d.path, args...)
	// Or those who serve leave the cgroup that this test is in.
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
	output, err := command.CombinedOutput()
	if err != nil || strings.Contains(string(output), "Failure") {
		d.t.Fatalf("%q: %v: %s", args, err, output)
	}
	return string(output)
}

const uid = `{"kubernetes.io/pod.uid":"1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"}`

func (d installed) mount() (dir string) {
	d.t.Helper()
	dir = d.t.TempDir()
	d.call("mount", dir, uid)
	d.t.Cleanup(func() { d.call("unmount", dir) })
	return dir
}

// status is what status says of the daemon, when there is a standby.
func (d installed) status() (s struct{ Active, Standby struct{ PID int } }) {
	d.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		var status struct {
			Daemon *struct{ Active, Standby struct{ PID int } }
		}
		text := d.call("status", "-o", "json")
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			d.t.Fatal(err)
		}
		if status.Daemon != nil && status.Daemon.Active.PID != 0 && status.Daemon.Standby.PID != 0 {
			return *status.Daemon
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("no two processes: %s", text)
		}
	}
}

// answer is what a client of the driver hears.
type answer struct {
	version           string
	active, companion int
	open              bool
	config            string
}

// runDir is the driver's.
func (d installed) runDir() string {
	return filepath.Join("/run/companion", filepath.Base(filepath.Dir(d.path)))
}

// kill kills a process, and returns when it has ended: kill(2) returns before, and until then it
// may answer.
func kill(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if n > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not end", pid)
		}
	}
}

// say says something to the pair, by the socket that the companion has made.
func (d installed) say(text string) (a answer) {
	d.t.Helper()
	path := filepath.Join(d.runDir(), clients)
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte(text)); err != nil {
		d.t.Fatal(err)
	}
	reply, files, err := receive(conn)
	if err != nil || len(files) != 0 {
		d.t.Fatalf("the answer is %q with %d descriptors, %v", reply, len(files), err)
	}
	if _, err := fmt.Sscan(reply, &a.version, &a.active, &a.companion, &a.open, &a.config); err != nil {
		d.t.Fatalf("the answer is %q: %v", reply, err)
	}
	return a
}

// goInto has a process go into a directory, and returns it with what tells of its end.
func goInto(t *testing.T, dir string) (process *exec.Cmd, ended chan error) {
	t.Helper()
	process, ended = exec.Command("/proc/self/exe"), make(chan error, 1)
	process.Env = []string{intoVariable + "=" + dir}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- process.Wait() }()
	return process, ended
}

func waits(t *testing.T, ended chan error) {
	t.Helper()
	select {
	case err := <-ended:
		t.Fatalf("who is to wait has ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
}

func ends(t *testing.T, ended chan error) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}

// Whatever becomes of the pair and of the companion, who waits goes on waiting, clients are
// answered, and nobody is left in the end.
func TestThePairAndItsCompanion(t *testing.T) {
	d := install(t)
	dir := d.mount()
	_, ended := goInto(t, dir)
	waits(t, ended)
	first := d.say("hello")
	if first.version != "1.0.0" || first.active != d.status().Active.PID || first.open {
		t.Errorf("a client hears %+v", first)
	}
	if limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", first.active)); err != nil || !strings.Contains(string(limits), "Max open files            4096                 4096 ") {
		t.Errorf("%s, %v", limits, err)
	}

	for range 3 {
		s := d.status()
		kill(t, s.Active.PID)
		if now := d.say("hello"); now.active != s.Standby.PID || now.companion != first.companion {
			t.Errorf("after the death of %+v, a client hears %+v", s, now)
		}
		waits(t, ended)
	}

	d.becomes("1.0.1")
	d.call("upgrade")
	upgraded := d.say("hello")
	if upgraded.version != "1.0.1" || upgraded.companion == first.companion {
		t.Errorf("after an upgrade, a client hears %+v; the companion was %d", upgraded, first.companion)
	}
	waits(t, ended)

	// It is started anew by a mount that has nothing else to do, and so is the pair.
	kill(t, upgraded.companion)
	d.call("mount", dir, uid)
	anew := d.say("hello")
	if anew.companion == upgraded.companion || anew.active == upgraded.active {
		t.Errorf("after the companion's death, a client hears %+v, and before %+v", anew, upgraded)
	}
	waits(t, ended)
	active := d.status().Active.PID
	d.call("mount", dir, uid)
	if now := d.say("hello"); now != anew || d.status().Active.PID != active {
		t.Errorf("a client hears %+v, and before %+v, though nothing has happened", now, anew)
	}

	killed, killedEnded := goInto(t, dir)
	waits(t, killedEnded)
	_ = killed.Process.Kill()
	ends(t, killedEnded)
	if now := d.say("open"); !now.open {
		t.Errorf("a client hears %+v", now)
	}
	ends(t, ended)
	_, ended = goInto(t, dir)
	ends(t, ended)

	d.call("unmount", dir)
	d.call("stop")
	if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", anew.companion)); len(line) > 0 { // a zombie has none
		t.Errorf("the companion is left: %q", line)
	}
	if _, err := os.Stat(d.runDir()); !os.IsNotExist(err) {
		t.Errorf("the run directory is left: %v", err)
	}
}

// A volume of a driver's own kind starts the daemon as others do.
func TestAVolumeOfAnotherKind(t *testing.T) {
	d := install(t)
	dir := t.TempDir()
	d.call("mount", dir, `{"kubernetes.io/pod.uid":"1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1","kind":"scratch"}`)
	t.Cleanup(func() { d.call("unmount", dir) })
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Error(err)
	}
	if a := d.say("hello"); a.active == 0 {
		t.Errorf("a client hears %+v", a)
	}
}

// The file system has the configuration, all processes of a pair have the same, and a new one is
// for a new pair.
func TestAConfigurationReachesTheFileSystem(t *testing.T) {
	d := install(t)
	configure := func(content string) {
		if err := os.WriteFile(filepath.Join(filepath.Dir(d.path), "config.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has := func(want string) (a answer) {
		t.Helper()
		if a = d.say("hello"); a.config != want+"." {
			t.Errorf("the file system has %q, want %q", a.config, want)
		}
		return a
	}
	dir := d.mount()
	has("")
	configure("one")
	d.call("mount", dir, uid)
	first := has("one")
	if d.call("init"); has("one").active != first.active {
		t.Error("init has replaced a pair that has the configuration")
	}
	configure("two")
	for range 2 {
		kill(t, d.status().Active.PID)
		has("one")
	}
	d.call("init")
	second := has("two")
	configure("wrong")
	if d.call("init"); has("two").active != second.active {
		t.Error("init has replaced a pair for a configuration that cannot be read")
	}
}
