package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/builds"
)

// installed is the driver, as a kubelet has it, with a log of its own.
type installed struct {
	t                *testing.T
	path, log, names string // names: see package builds
}

func install(t *testing.T, names ...string) installed {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	// A name of its own on this machine: cgroups and the run directory have it.
	dir := t.TempDir()
	d := installed{
		t: t, path: filepath.Join(dir, fmt.Sprintf("test-%d~killer", rand.Uint32()), "killer"),
		log: filepath.Join(dir, "log"), names: strings.Join(names, " "),
	}
	if err := os.MkdirAll(filepath.Dir(d.path), 0o755); err != nil {
		t.Fatal(err)
	}
	d.becomes("1.0.0")
	d.logsTo(d.log)
	t.Cleanup(func() {
		_, _ = d.try("stop", "--force") // which frees the readers that wait
		if t.Failed() {
			t.Logf("the log:\n%s", d.logged())
		}
	})
	return d
}

// becomes puts a version in the place of the one that is there, if any.
func (d installed) becomes(version string) {
	d.t.Helper()
	if err := errors.Join(os.Link(built(d.t, version, d.names), d.path+".new"), os.Rename(d.path+".new", d.path)); err != nil {
		d.t.Fatal(err)
	}
}

func (d installed) logsTo(log string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(d.path), "config.json"), []byte(log), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// versions is the directory of those that were built.
var versions string

// TestMain has four tests run at the same time: they wait most of it.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	var err error
	if versions, err = os.MkdirTemp("", "killer-test-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(versions)
	os.Exit(status)
}

var building sync.Mutex

// built is a version, which is built once.
func built(t *testing.T, version, names string) (path string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	path = filepath.Join(versions, version+names)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := builds.Build(path, ".", "-s -w -X main.version="+version, names); err != nil {
		t.Fatal(err)
	}
	return path
}

func (d installed) try(args ...string) (string, error) {
	command := exec.Command(d.path, args...)
	// Or those who serve leave the cgroup that this test is in.
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
	output, err := command.CombinedOutput()
	if err == nil && strings.Contains(string(output), "Failure") {
		err = errors.New("failure")
	}
	return string(output), err
}

func (d installed) call(args ...string) string {
	d.t.Helper()
	output, err := d.try(args...)
	if err != nil {
		d.t.Fatalf("%q: %v: %s", args, err, output)
	}
	return output
}

func (d installed) mount(pod string) (dir string) {
	d.t.Helper()
	dir = d.t.TempDir()
	d.call("mount", dir, `{"kubernetes.io/pod.uid":"1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1","kubernetes.io/pod.namespace":"shop","kubernetes.io/pod.name":"`+pod+`"}`)
	d.t.Cleanup(func() { _, _ = d.try("unmount", dir) })
	return dir
}

func (d installed) logged() string {
	text, _ := os.ReadFile(d.log)
	return string(text)
}

// daemon is what status says of it when there is a standby.
type daemon struct {
	Active, Standby struct{ PID int }
	Takeovers       int
}

func (d installed) daemon() daemon {
	d.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		var status struct{ Daemon *daemon }
		text := d.call("status", "-o", "json")
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			d.t.Fatal(err)
		}
		if status.Daemon != nil && status.Daemon.Active.PID != 0 && status.Daemon.Standby.PID != 0 {
			return *status.Daemon
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("no two processes: %s\n%s", text, d.logged())
		}
	}
}

// bystander reads a file of a volume all the time, until it is stopped.
type bystander struct {
	reads   int
	longest time.Duration
	errors  []string
}

func standBeside(dir string, pause time.Duration) (stop func() bystander) {
	var b bystander
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !ended.Load() {
			begun := time.Now()
			text, err := os.ReadFile(filepath.Join(dir, "good"))
			b.longest = max(b.longest, time.Since(begun))
			b.reads++
			if (err != nil || string(text) != content) && len(b.errors) < 5 {
				b.errors = append(b.errors, fmt.Sprintf("%q, %v", text, err))
			}
			time.Sleep(pause)
		}
	}()
	return func() bystander {
		ended.Store(true)
		select {
		case <-done:
		case <-time.After(time.Minute):
			b = bystander{errors: []string{"it hangs"}}
		}
		return b
	}
}

// readInALoop has processes read a file until they are stopped, each for three seconds at most. It
// counts how their reads have ended.
func readInALoop(path string, readers int) (ended func(reason string) int, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex // guards reasons
	var all sync.WaitGroup
	reasons := map[string]int{}
	for range readers {
		all.Go(func() {
			for ctx.Err() == nil {
				reader := exec.Command("cat", path)
				var said strings.Builder
				reader.Stderr = &said
				if reader.Start() != nil {
					return
				}
				gone := time.AfterFunc(3*time.Second, func() { _ = reader.Process.Kill() })
				err := reader.Wait()
				gone.Stop()
				_, reason, _ := strings.Cut(strings.TrimSpace(said.String()), path+": ")
				if reason == "" {
					reason = fmt.Sprint(err)
				}
				mu.Lock()
				reasons[reason]++
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	return func(reason string) int {
		mu.Lock()
		defer mu.Unlock()
		return reasons[reason]
	}, func() { cancel(); all.Wait() }
}

// refused is how a read ends that is refused.
const refused = "Input/output error"

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// kill kills a process, and returns when nobody but its parent knows of it.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "its end", func() bool { return ended(pid) })
}

func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z")
}

// Whoever reads a file whose reads end the process, or keep it waiting, reads it again and again.
// The pair loses two processes by that, and answers with errors then; a reader of another volume
// sees none.
func TestARequestKillsTwoProcessesAtMost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		file    string
		readers int
		names   string
		says    string // in the log
		longest time.Duration
	}{
		{"slow", 4, "", "gives no sign of life", 12 * time.Second},
		{"exit", 4, "", "", 5 * time.Second},
		{"panic", 2, "", `crash: "panic: a file that panics`, 5 * time.Second},
		{"overflow", 1, "", "stack overflow", 10 * time.Second},
		{"exit", 4, "noresend", "", 5 * time.Second}, // as before Linux 6.9
	} {
		t.Run(fmt.Sprintf("%s, read by %d%s", row.file, row.readers, strings.TrimRight(", "+row.names, ", ")), func(t *testing.T) {
			t.Parallel()
			var stopReaders func()
			t.Cleanup(func() { stopReaders() })
			d := install(t, row.names)
			volume, other := d.mount("hostile-0"), d.mount("web-0")
			d.daemon()
			stopBystander := standBeside(other, 5*time.Millisecond)
			var ended func(reason string) int
			ended, stopReaders = readInALoop(filepath.Join(volume, row.file), row.readers)
			for deadline := time.Now().Add(30 * time.Second); ended(refused) < 100 && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			b := stopBystander()
			if ended(refused) < 100 {
				t.Errorf("%d reads are refused", ended(refused))
			}
			if len(b.errors) > 0 {
				t.Errorf("a bystander's reads: %q", b.errors)
			}
			t.Logf("a bystander waited for %v at most, in %d reads", b.longest.Round(time.Millisecond), b.reads)
			if b.longest > row.longest {
				t.Errorf("a bystander waited for %v", b.longest)
			}
			if t.Failed() {
				return // the readers that wait are freed by the end of the daemon
			}
			if got := d.daemon().Takeovers; got != 2 {
				t.Errorf("%d take-overs", got)
			}
			stopReaders()
			if text, err := os.ReadFile(filepath.Join(volume, "good")); err != nil || string(text) != content {
				t.Errorf("another file of the volume: %q, %v", text, err)
			}
			log := d.logged()
			if !strings.Contains(log, row.says) {
				t.Errorf("the log does not say %s", row.says)
			}
			if want := "is answered with EIO"; strings.Count(log, want) != 1 || !strings.Contains(log, "READ of node") || !strings.Contains(log, "shop/hostile-0") {
				t.Errorf("the log does not say, once, what %s", want)
			}
			if strings.Contains(log, "\x1b") {
				t.Error("the log has control characters in it")
			}
		})
	}
}

// A process that is killed while it answers is no evidence against what it was answering: however
// often, nobody gets an error.
func TestManyDeathsCondemnNobody(t *testing.T) {
	t.Parallel()
	d := install(t)
	dir := d.mount("web-0")
	var stops []func() bystander
	for range 4 {
		stops = append(stops, standBeside(dir, 0))
	}
	const deaths = 20
	for range deaths {
		pid := d.daemon().Active.PID
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for d.daemon().Active.PID == pid {
			time.Sleep(time.Millisecond)
		}
	}
	for _, stop := range stops {
		if b := stop(); len(b.errors) > 0 {
			t.Errorf("reads: %q", b.errors)
		}
	}
	if got := d.daemon().Takeovers; got != deaths {
		t.Errorf("%d take-overs", got)
	}
	if log := d.logged(); strings.Contains(log, "is answered with EIO") {
		t.Error("something is refused")
	}
}

// Several files of a volume end the process, and are read at the same time. Each costs two
// processes, and there is another one always.
func TestFilesThatKillTogether(t *testing.T) {
	t.Parallel()
	d := install(t)
	volume, other := d.mount("hostile-0"), d.mount("web-0")
	d.daemon()
	stopBystander := standBeside(other, 5*time.Millisecond)
	files := []string{"exit", "panic", "overflow"}
	for _, file := range files {
		ended, stop := readInALoop(filepath.Join(volume, file), 2)
		defer func() {
			await(t, "reads of "+file+" are refused", func() bool { return ended(refused) > 10 })
			stop()
			if file == files[0] { // the last one that is waited for
				if b := stopBystander(); len(b.errors) > 0 {
					t.Errorf("a bystander's reads: %q", b.errors)
				} else {
					t.Logf("a bystander waited for %v at most, in %d reads", b.longest, b.reads)
				}
				if got := d.daemon().Takeovers; got > 2*len(files) {
					t.Errorf("%d take-overs", got)
				}
			}
		}()
	}
}

// Both processes die, the active one of a request. The call-out that starts them anew says so, with
// the text of the crash, and they know what it died of.
func TestTheTextOfACrash(t *testing.T) {
	t.Parallel()
	d := install(t)
	volume := d.mount("hostile-0")
	pair := d.daemon()
	if err := unix.Kill(pair.Standby.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	reader := exec.Command("cat", filepath.Join(volume, "panic"))
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the active process dies", func() bool { return ended(pair.Active.PID) })
	kill(t, pair.Standby.PID)
	if reader.Wait() == nil {
		t.Error("the file can be read")
	}
	d.call("restore")
	log := d.logged()
	for _, want := range []string{
		"daemon: the daemon was lost: ", `crash: "panic: a file that panics"`, `crash: "was read \x1b[31m"`, `crash: "goroutine `,
	} {
		if strings.Count(log, want) != 1 {
			t.Errorf("the log does not say once: %s", want)
		}
	}
	if strings.Contains(log, "\x1b") {
		t.Error("the log has control characters in it")
	}
	if got := d.daemon().Takeovers; got != 0 {
		t.Errorf("%d take-overs", got)
	}
	ended, stop := readInALoop(filepath.Join(volume, "panic"), 1)
	await(t, "it is refused", func() bool { return ended(refused) > 10 })
	stop()
	if got := d.daemon().Takeovers; got != 2 { // a pair that is started anew suspects nothing
		t.Errorf("%d take-overs since then", got)
	}
	d.call("unmount", volume)
	d.call("stop")
	if _, err := os.Lstat(d.runDir("crash")); !os.IsNotExist(err) {
		t.Errorf("after stop: %v", err)
	}
}

// runDir is a path in the driver's run directory.
func (d installed) runDir(name string) string {
	return filepath.Join("/run/killer", filepath.Base(filepath.Dir(d.path)), name)
}

// Another version may be without the error: it tries what was refused.
func TestAnotherVersion(t *testing.T) {
	t.Parallel()
	d := install(t)
	volume := d.mount("hostile-0")
	path := filepath.Join(volume, "exit")
	const says = "is answered with EIO"
	for i, version := range []string{"1.0.0", "1.0.1"} {
		if i > 0 {
			d.becomes(version)
			d.call("upgrade")
		}
		d.daemon()
		ended, stop := readInALoop(path, 1)
		await(t, "it is refused", func() bool { return ended(refused) > 10 })
		stop()
		if got := strings.Count(d.logged(), says); got != i+1 {
			t.Errorf("version %s: the log says %d times what %s", version, got, says)
		}
	}
}

// A process that serves cannot fill the file system that its files are on.
func TestNoFileGrows(t *testing.T) {
	t.Parallel()
	d := install(t)
	d.logsTo("off") // a log that is a file may grow
	d.mount("web-0")
	pair := d.daemon()
	for _, pid := range []int{pair.Active.PID, pair.Standby.PID} {
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		if err != nil || !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), "Max file size 65536 65536 bytes") {
			t.Errorf("%v, %s", err, limits)
		}
	}
}

// The text in the log is that of the process that it is logged for, however many have died before.
func TestTheTextIsOfTheProcessThatDied(t *testing.T) {
	t.Parallel()
	d := install(t)
	d.mount("web-0")
	signal := func(pid int, s syscall.Signal) {
		t.Helper()
		if err := unix.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	const deaths = 10
	for range deaths {
		before := d.daemon()
		signal(before.Standby.PID, unix.SIGQUIT)
		await(t, "another standby", func() bool { return d.daemon().Standby.PID != before.Standby.PID })
	}
	// Where many die in a row, the last ones say nothing new.
	if got := strings.Count(d.logged(), `crash: "SIGQUIT: quit"`); got < deaths/2 {
		t.Errorf("the log has the text of %d standbys, of %d that died", got, deaths)
	}
	if info, err := os.Stat(d.runDir("crash")); err != nil || info.Size() >= 16<<10 {
		t.Errorf("the file is too large, or %v: %+v", err, info)
	}
	before := d.daemon()
	said := len(d.logged())
	signal(before.Active.PID, unix.SIGABRT)
	await(t, "a take-over", func() bool { return d.daemon().Active.PID != before.Active.PID })
	if log := d.logged()[said:]; !strings.Contains(log, `crash: "SIGABRT: abort"`) || strings.Contains(log, "SIGQUIT") {
		t.Errorf("the active process got SIGABRT, and the log says\n%s", log)
	}
	before = d.daemon()
	signal(before.Standby.PID, unix.SIGQUIT)
	await(t, "another standby", func() bool { return d.daemon().Standby.PID != before.Standby.PID })
	quit := len(d.logged())
	before = d.daemon()
	signal(before.Active.PID, unix.SIGKILL)
	await(t, "a take-over", func() bool { return d.daemon().Active.PID != before.Active.PID })
	if log := d.logged()[quit:]; strings.Contains(log, "crash: ") {
		t.Errorf("the active process was killed, and the log says\n%s", log)
	}
}
