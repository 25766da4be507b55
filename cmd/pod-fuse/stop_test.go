package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStopCountsServerVolumes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	n.must("unmount", client)
	output, err := n.command("stop").CombinedOutput()
	if exitStatus(err) != 1 || !strings.Contains(string(output), server) || !strings.Contains(string(output), "shop/web-0") {
		t.Errorf("stop with a server volume: %v: %s", err, output)
	}
	if n.isMounted(server) != 1 {
		t.Error("the server volume was unmounted")
	}
	eventually(t, "the driver has all its processes, and was not stopped", func() bool { return len(n.processes()) >= 4 })
	n.must("unmount", server)
	if output, err := n.command("stop").CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("stop: %v: %s", err, output)
	}
	n.isGone()
	if output, err := n.command("stop").CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("stop of what is stopped: %v: %s", err, output)
	}
}

func TestStopForceEndsAll(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	n.serves(client, server)
	if got := n.reads(client, server); got != "hello" {
		t.Fatalf("read %q", got)
	}
	if output, err := n.command("stop", "--force").CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("%v: %s", err, output)
	}
	n.isGone()
	// And the driver can begin anew.
	n.must("mount", server, options(podUID, "serves", "data"))
	n.must("unmount", server)
}

// A mounter that hangs is no obstacle, nor is its spare.
func TestStopOfAMounterThatHangs(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.pod()
	m := n.status().Mounter
	stop(t, m.PID)
	if output, err := n.command("stop", "--force").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	n.isGone()
}

func (n node) installer(command string, args ...string) *exec.Cmd {
	return n.command(append([]string{command, "--plugin-dir", filepath.Dir(filepath.Dir(n.path))}, args...)...)
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	n.must("unmount", client)
	driver := filepath.Join(t.TempDir(), "pod-fuse")
	must(t, os.Link(n.path, driver))
	elsewhere := n
	elsewhere.path = driver
	output, err := elsewhere.installer("uninstall", "--plugin-dir", filepath.Dir(filepath.Dir(n.path))).CombinedOutput()
	if exitStatus(err) != 1 || !strings.Contains(string(output), "volumes are in use") || !strings.Contains(string(output), server) {
		t.Errorf("%v: %s", err, output)
	}
	output, err = elsewhere.installer("uninstall", "--plugin-dir", filepath.Dir(filepath.Dir(n.path)), "--force").CombinedOutput()
	if err != nil || len(output) > 0 {
		t.Errorf("with --force: %v: %s", err, output)
	}
	n.isGone()
	if _, err := os.Stat(filepath.Dir(n.path)); !os.IsNotExist(err) {
		t.Errorf("the driver is there: %v", err)
	}
	output, err = elsewhere.installer("uninstall", "--plugin-dir", filepath.Dir(filepath.Dir(n.path))).CombinedOutput()
	if err != nil || len(output) > 0 {
		t.Errorf("again: %v: %s", err, output)
	}
	n.isGone()
	must(t, os.Mkdir(filepath.Dir(n.path), 0o755))
	must(t, os.Link(driver, n.path)) // for the end of the test
}

func TestUninstallWatchWaitsForServerVolumes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	driver := filepath.Join(t.TempDir(), "pod-fuse")
	must(t, os.Link(n.path, driver))
	elsewhere := n
	elsewhere.path = driver
	command := elsewhere.installer("uninstall", "--plugin-dir", filepath.Dir(filepath.Dir(n.path)), "--watch", "--interval", "50ms")
	must(t, command.Start())
	defer func() { _ = command.Process.Signal(unix.SIGTERM); _ = command.Wait() }()
	eventually(t, "new volumes are refused", func() bool {
		output, err := n.command("status").Output()
		return err == nil && strings.Contains(string(output), "refused, as the driver is being removed")
	})
	for name, own := range map[string][]string{"client": nil, "server": {"serves", "data"}} {
		if a := n.call("mount", n.volume(podUID, "new-"+name), options(podUID, own...)); a.Status != "Failure" || !strings.Contains(a.Message, "takes no new volumes") {
			t.Errorf("a new %s volume: %+v", name, a)
		}
	}
	n.must("mount", server, options(podUID, "serves", "data")) // its kubelet repeats the call
	n.must("unmount", client)
	time.Sleep(300 * time.Millisecond)
	if n.isMounted(server) != 1 {
		t.Error("it did not wait")
	}
	n.must("unmount", server)
	eventually(t, "it is uninstalled", func() bool {
		_, err := os.Stat(filepath.Dir(n.path))
		_, runErr := os.Stat(n.runDir)
		return os.IsNotExist(err) && os.IsNotExist(runErr)
	})
	n.isGone()
	must(t, os.Mkdir(filepath.Dir(n.path), 0o755))
	must(t, os.Link(driver, n.path)) // for the end of the test
}

// All of the driver dies at once: the next call-out heals, and programs can serve, also by
// containers that have run since before: their launcher finds the new socket.
func TestATotalLossIsHealed(t *testing.T) {
	t.Parallel()
	for _, heal := range []string{"init", "restore", "mount"} {
		t.Run(heal, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			client, server := n.pod()
			const runsOn = "88888888-8888-4888-8888-888888888888"
			clientThere, serverThere := n.volume(runsOn, "data"), n.volume(runsOn, "data-server")
			n.must("mount", clientThere, options(runsOn))
			n.must("mount", serverThere, options(runsOn, "serves", "data"))
			n.serves(clientThere, serverThere, "--restart")
			var s status
			program := 0
			eventually(t, "there are a standby, a spare and a program", func() bool {
				s = n.status()
				for _, p := range s.Programs {
					program = max(program, p.PID)
				}
				return s.Daemon.Active != nil && s.Daemon.Standby != nil && s.Mounter.PID != 0 && s.Mounter.Spare != 0 && program != 0
			})
			socket := file(t, server+"/socket")
			n.killAll(s.Daemon.Active.PID, s.Daemon.Standby.PID, s.Mounter.PID, s.Mounter.Spare)
			switch heal {
			case "mount":
				other := n.volume(podUID, "other")
				n.must("mount", other, options(podUID))
				n.must("unmount", other)
			case "init":
				n.must("init")
			default:
				if output, err := n.command("restore").CombinedOutput(); err != nil {
					t.Fatalf("restore: %v: %s", err, output)
				}
			}
			if now := n.status(); now.Mount.State != "ok" || now.Mounter.PID == 0 || now.Mounter.PID == s.Mounter.PID {
				t.Errorf("the driver has not come back: %+v", now)
			}
			if file(t, server+"/socket") == socket {
				t.Error("the server volume has the socket that nobody listens on")
			}
			for _, v := range n.status().Volumes {
				if v.State != "ok" {
					t.Errorf("status: %+v", v)
				}
			}
			n.serves(client, server)
			if got := n.reads(client, server); got != "hello" {
				t.Errorf("read %q", got)
			}
			// The program has ended with its mount, which nobody else had, and its launcher starts
			// it again.
			if got := n.reads(clientThere, serverThere); got != "hello" {
				t.Errorf("of the container that has run since before, %q is read", got)
			}
		})
	}
}

// file identifies one.
func file(t *testing.T, path string) [2]uint64 {
	t.Helper()
	var stat unix.Stat_t
	must(t, unix.Lstat(path, &stat))
	return [2]uint64{stat.Dev, stat.Ino}
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	n.serves(client, server)
	if got := n.reads(client, server); got != "hello" {
		t.Fatalf("read %q", got)
	}
	before := n.status().Mounter.PID
	must(t, os.Remove(n.path))
	must(t, os.Link(newer, n.path))
	if output, err := n.command("upgrade").CombinedOutput(); err != nil {
		t.Fatalf("upgrade: %v: %s", err, output)
	}
	s := n.status()
	if s.Mounter.Version != "1.2.4" || s.Mounter.PID == before {
		t.Errorf("after the upgrade: %+v", s)
	}
	if got := n.reads(client, server); got != "hello" {
		t.Errorf("read %q", got)
	}
}
