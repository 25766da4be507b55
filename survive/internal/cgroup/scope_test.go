package cgroup

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"
)

// fakeRun puts an empty directory in the place of /run, with a /run/systemd as
// on a machine that systemd runs on.
func fakeRun(t *testing.T) {
	t.Helper()
	mount(t, "none", "/run", "tmpfs", 0, "")
	if err := os.MkdirAll(runtimeDir+"/system", 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestASystemdThatDoesNotListenIsNotTheEnd(t *testing.T) {
	if !isolated(t) {
		return
	}
	fakeRun(t)
	pid := kubelet(t, mountedHierarchies(t))
	where, err := Escape(context.Background(), driver, pid, MaxThreads)
	if where != "/"+ownName(driver, pid) || err == nil || !strings.Contains(err.Error(), runtimeDir+"/private") {
		t.Errorf("%q, %v", where, err)
	}
}

func TestASystemdThatHangsIsNotTheEnd(t *testing.T) {
	if !isolated(t) {
		return
	}
	fakeRun(t)
	socket, err := net.Listen("unix", runtimeDir+"/private") // we are process 1
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	pid := kubelet(t, mountedHierarchies(t))
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	where, err := Escape(ctx, driver, pid, MaxThreads)
	if where != "/"+ownName(driver, pid) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%q, %v", where, err)
	}
	if took := time.Since(start); took >= scopeTimeout {
		t.Errorf("it waits for %v, whatever the caller says", took)
	}
}

// Runs where systemd is process 1; e2e/systemd has such a machine.
func TestSystemdMakesAScope(t *testing.T) {
	if conn, err := connect(context.Background(), runtimeDir); errors.Is(err, errNoSystemd) {
		t.Skip(err)
	} else if err == nil {
		conn.Close()
	}
	process := exec.Command("sleep", "60")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	pid := process.Process.Pid
	scope := scopeName(driver, pid)
	where, err := Escape(context.Background(), driver, pid, MaxThreads)
	if err != nil || path.Base(where) != scope {
		_ = process.Process.Kill()
		t.Fatalf("%q, %v", where, err)
	}
	shown, err := exec.Command("systemctl", "show", scope).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"KillSignal=9", "CollectMode=inactive-or-failed", "TimeoutStopUSec=5s", "Slice=system.slice", "ActiveState=active"} {
		if !strings.Contains(string(shown), want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(string(shown), "OOMPolicy=") && !strings.Contains(string(shown), "OOMPolicy=continue\n") {
		t.Error("killed for memory, one process takes the others with it")
	}
	if output, err := exec.Command("systemctl", "stop", "--no-block", scope).CombinedOutput(); err != nil {
		_ = process.Process.Kill()
		t.Errorf("%v: %s", err, output)
	}
	if err := process.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the process ended with %v", err)
	}
	// We were the parent, so with cgroup v1 in a container nothing tells systemd
	// that the process is gone, and its stop runs into the time limit.
	for deadline := time.Now().Add(2 * stopTimeout); ; time.Sleep(50 * time.Millisecond) {
		state, err := exec.Command("systemctl", "show", "-P", "LoadState", scope).Output()
		if string(state) == "not-found\n" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the scope stays: %s, %v", state, err)
		}
	}
}
