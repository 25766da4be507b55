package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// installed is the driver, as a kubelet has it: unlike any other on this machine.
type installed struct {
	t    *testing.T
	path string
}

func install(t *testing.T) installed {
	d := installed{t, filepath.Join(t.TempDir(), fmt.Sprintf("test-%d~clock", os.Getpid()), "clock")}
	if err := os.MkdirAll(filepath.Dir(d.path), 0o755); err != nil {
		t.Fatal(err)
	}
	d.becomes("1.0.0")
	t.Cleanup(func() { d.call("stop", "--force") })
	return d
}

// becomes puts a version in the place of the one that is there.
func (d installed) becomes(version string) {
	d.t.Helper()
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+version, "-o", d.path+".new")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		d.t.Fatalf("build: %v\n%s", err, output)
	}
	if err := os.Rename(d.path+".new", d.path); err != nil {
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

// pair waits until two processes of a version are there, and neither is the one that ended.
func (d installed) pair(version string, ended int) (active int) {
	d.t.Helper()
	type process struct {
		PID     int
		Version string
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		var status struct {
			Daemon struct{ Active, Standby process }
		}
		text := d.call("status", "-o", "json")
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			d.t.Fatal(err)
		}
		a, s := status.Daemon.Active, status.Daemon.Standby
		if a.Version == version && s.Version == version && a.PID != 0 && s.PID != 0 && a.PID != ended && s.PID != ended {
			return a.PID
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("no two processes of version %s: %s", version, text)
		}
	}
}

func TestAReaderOfTheClockNoticesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	d, dir := install(t), t.TempDir()
	d.call("mount", dir, `{"kubernetes.io/pod.uid":"1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"}`)
	t.Cleanup(func() { d.call("unmount", dir) })
	var reads atomic.Int64
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for last := ""; ; reads.Add(1) {
			now, err := os.ReadFile(filepath.Join(dir, "time"))
			if err != nil || len(now) != len(content()) || string(now) < last {
				t.Errorf("read %q after %q: %v", now, last, err)
			}
			select {
			case <-end:
				return
			default:
				last = string(now)
			}
		}
	}()
	first := d.pair("1.0.0", 0)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := d.pair("1.0.0", first)
	d.becomes("1.0.1")
	d.call("upgrade")
	d.pair("1.0.1", second)
	close(end)
	<-ended
	if reads.Load() == 0 {
		t.Error("nothing was read")
	}
}
