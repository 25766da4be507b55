package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// inAnotherNamespace is the driver as it is called in another mount namespace, with the
// same run directory: by a kubelet that has one of its own, or was restarted in its
// container, or by somebody by hand. What is mounted from now on is mounted in one of
// them only.
func (d installed) inAnotherNamespace(more uintptr) installed {
	d.t.Helper()
	process := &exec.Cmd{
		Path:        "/bin/sh",
		Args:        []string{"sh", "-c", "mount --make-rprivate / && mount -t proc proc /proc && echo ready && read end"},
		Env:         os.Environ(),
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP | more},
	}
	d.on = []string{"nsenter", "--target", fmt.Sprint(started(d.t, process).pid), "--mount", "--cgroup", "--pid", "--"}
	return d
}

func TestACallInAnotherMountNamespaceFindsTheDaemon(t *testing.T) {
	for _, command := range []string{"init", "restore", "mount"} {
		t.Run(command, func(t *testing.T) {
			d := install(t)
			other := d.inAnotherNamespace(0)
			l := readAtTimes(t, d.mount())
			active, standby := d.pair()
			if command != "mount" { // which comes next
				other.ends(command)
			}
			dir := t.TempDir()
			other.must("mount", dir, edit(podUID, uidOf(1)))
			if got := other.onItsNode(`cat "$1/pod.uid"`, dir); got != uidOf(1)+"\n" {
				t.Errorf("the volume in the other namespace: %q", got)
			}
			if count := mountsOn(t, dir); count != 0 {
				t.Errorf("%d mounts in this namespace", count)
			}
			l.goesOn()
			if nowActive, nowStandby := d.pair(); nowActive != active || nowStandby != standby {
				t.Errorf("processes %d and %d became %d and %d", active, standby, nowActive, nowStandby)
			}
			// The one that takes over serves both.
			kill(t, active)
			if got := other.onItsNode(`cat "$1/pod.uid" "$1/pod.nodename"`, dir); !strings.HasPrefix(got, uidOf(1)) {
				t.Errorf("the volume in the other namespace, after a take-over: %q", got)
			}
			l.stop()
			other.must("unmount", dir)
			// And when both have died, it is the other one's business as well.
			d.killPair()
			other.must("init")
			other.must("mount", dir, edit(podUID, uidOf(1)))
			if got := other.onItsNode(`cat "$1/pod.uid"`, dir); got != uidOf(1)+"\n" {
				t.Errorf("the volume in the other namespace, after a loss: %q", got)
			}
			other.must("unmount", dir)
		})
	}
}

// Where its processes cannot be seen either, nobody can say where its mount is: the call
// fails, and harms nobody.
func TestACallInAnotherPIDNamespaceHarmsNobody(t *testing.T) {
	newerFormat := build(t, "speaks-newer", "newer")
	for name, row := range map[string]struct{ serves, calls string }{
		"the same version": {binary, binary}, "an older format": {newerFormat, binary}, "a newer format": {binary, newerFormat},
	} {
		t.Run(name, func(t *testing.T) {
			d := install(t)
			d.replaceBinary(copyOf(t, row.serves))
			other := d.inAnotherNamespace(syscall.CLONE_NEWPID)
			l := readAtTimes(t, d.mount())
			active, standby := d.pair()
			d.replaceBinary(copyOf(t, row.calls))
			other.must("init")
			if output, err := other.command("restore").CombinedOutput(); err == nil || !strings.Contains(string(output), "call the driver in the namespaces in which the daemon was started") {
				t.Errorf("restore: %v: %s", err, output)
			}
			if a := other.call("mount", t.TempDir(), edit(podUID, uidOf(1))); a.Status != "Failure" || !strings.Contains(a.Message, "another PID namespace") {
				t.Errorf("mount: %+v", a)
			}
			l.stop()
			d.replaceBinary(copyOf(t, row.serves))
			if nowActive, nowStandby := d.pair(); nowActive != active || nowStandby != standby {
				t.Errorf("processes %d and %d became %d and %d", active, standby, nowActive, nowStandby)
			}
		})
	}
}
