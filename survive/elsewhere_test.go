package survive_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// inAnotherNamespace is the driver as it is called in another mount namespace, with the
// same run directory: by a kubelet that has one of its own, or was restarted in its
// container, or by somebody by hand. What is mounted from now on is mounted in one of
// them only.
func inAnotherNamespace(d testnode.Driver, more uintptr) testnode.Driver {
	d.T.Helper()
	process := &exec.Cmd{
		Path:        "/bin/sh",
		Args:        []string{"sh", "-c", "mount --make-rprivate / && mount -t proc proc /proc && echo ready && read end"},
		Env:         os.Environ(),
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP | more},
	}
	d.On = []string{"nsenter", "--target", fmt.Sprint(testnode.Started(d.T, process).PID), "--mount", "--cgroup", "--pid", "--"}
	return d
}

func TestACallInAnotherMountNamespaceFindsTheDaemon(t *testing.T) {
	for _, command := range []string{"init", "restore", "mount"} {
		t.Run(command, func(t *testing.T) {
			d := testnode.Install(t)
			other := inAnotherNamespace(d, 0)
			l := readAtTimes(t, d.Mount())
			active, standby := d.Pair()
			if command != "mount" { // which comes next
				ends(other, command)
			}
			dir := t.TempDir()
			other.Must("mount", dir, testnode.Edit(testnode.PodUID, uidOf(1)))
			if got := other.OnItsNode(`cat "$1/pod.uid"`, dir); got != uidOf(1)+"\n" {
				t.Errorf("the volume in the other namespace: %q", got)
			}
			if count := testnode.MountsOn(t, dir); count != 0 {
				t.Errorf("%d mounts in this namespace", count)
			}
			l.goesOn()
			if nowActive, nowStandby := d.Pair(); nowActive != active || nowStandby != standby {
				t.Errorf("processes %d and %d became %d and %d", active, standby, nowActive, nowStandby)
			}
			// The one that takes over serves both.
			testnode.Kill(t, active)
			if got := other.OnItsNode(`cat "$1/pod.uid" "$1/pod.nodename"`, dir); !strings.HasPrefix(got, uidOf(1)) {
				t.Errorf("the volume in the other namespace, after a take-over: %q", got)
			}
			l.stop()
			other.Must("unmount", dir)
			// And when both have died, it is the other one's business as well.
			d.KillPair()
			other.Must("init")
			other.Must("mount", dir, testnode.Edit(testnode.PodUID, uidOf(1)))
			if got := other.OnItsNode(`cat "$1/pod.uid"`, dir); got != uidOf(1)+"\n" {
				t.Errorf("the volume in the other namespace, after a loss: %q", got)
			}
			other.Must("unmount", dir)
		})
	}
}

// Where its processes cannot be seen either, nobody can say where its mount is: the call
// fails, and harms nobody.
func TestACallInAnotherPIDNamespaceHarmsNobody(t *testing.T) {
	newerFormat := testnode.Build(t, "speaks-newer", "newer")
	for name, row := range map[string]struct{ serves, calls string }{
		"the same version": {testnode.Binary, testnode.Binary}, "an older format": {newerFormat, testnode.Binary}, "a newer format": {testnode.Binary, newerFormat},
	} {
		t.Run(name, func(t *testing.T) {
			d := testnode.Install(t)
			d.ReplaceBinary(testnode.CopyOf(t, row.serves))
			other := inAnotherNamespace(d, syscall.CLONE_NEWPID)
			l := readAtTimes(t, d.Mount())
			active, standby := d.Pair()
			d.ReplaceBinary(testnode.CopyOf(t, row.calls))
			other.Must("init")
			if output, err := other.Command("restore").CombinedOutput(); err == nil || !strings.Contains(string(output), "call the driver in the namespaces in which the daemon was started") {
				t.Errorf("restore: %v: %s", err, output)
			}
			if a := other.Call("mount", t.TempDir(), testnode.Edit(testnode.PodUID, uidOf(1))); a.Status != "Failure" || !strings.Contains(a.Message, "another PID namespace") {
				t.Errorf("mount: %+v", a)
			}
			l.stop()
			d.ReplaceBinary(testnode.CopyOf(t, row.serves))
			if nowActive, nowStandby := d.Pair(); nowActive != active || nowStandby != standby {
				t.Errorf("processes %d and %d became %d and %d", active, standby, nowActive, nowStandby)
			}
		})
	}
}
