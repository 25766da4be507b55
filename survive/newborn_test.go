package survive_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/pod-info-fuse/internal/testnode"
)

// asUser starts what a container's process can do that has become a user: with hostPID, it sees
// the node's processes, and without, those of a PID namespace of its own.
func asUser(t *testing.T, user syscall.Credential, what string, hostPID bool) *testnode.Process {
	t.Helper()
	pod := exec.Command("/proc/self/exe")
	pod.Env = append(os.Environ(), sameUser+"="+what)
	pod.SysProcAttr = &syscall.SysProcAttr{Credential: &user}
	if !hostPID {
		pod.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	return testnode.Started(t, pod)
}

// stops ends the process, and returns what it says meanwhile.
func stops(p *testnode.Process) string {
	p.T.Helper()
	p.Stdin.Close()
	rest, err := io.ReadAll(p.Stdout)
	if err != nil {
		p.T.Error(err)
	}
	return string(rest)
}

// A process that has just been started is confined only once it runs. Before, another one of its
// user could read what it has open, and by its root directory, the node's files.
func TestANewbornProcessIsNobodys(t *testing.T) {
	for name, hostPID := range map[string]bool{"with hostPID": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			d := testnode.Install(t)
			dir := d.Mount()
			d.Pair()
			pod := asUser(t, d.User(), "reaches newborn processes", hostPID)
			for i := range 12 {
				if active, _ := d.Pair(); i%4 == 3 {
					d.ReplaceBinary([]string{testnode.Newer, testnode.Binary}[i/4%2])
					d.Must("init")
				} else {
					testnode.Kill(t, active)
				}
			}
			d.Pair()
			if reached := stops(pod); reached != "" {
				t.Errorf("a process of the daemon's user has reached\n%s", reached)
			}
			if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
				t.Errorf("%q", got)
			}
		})
	}
}

// Somebody who is the daemon's user, and not in one of its processes, gets neither the connection
// nor what the processes and root tell each other by: so nobody but the pair itself can send what
// others must not believe.
func TestNobodyOfTheDaemonsUserReachesThePair(t *testing.T) {
	for name, hostPID := range map[string]bool{"with hostPID": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			d := testnode.Install(t)
			d.Mount()
			before, _ := d.Pair()
			t.Setenv(sameUserRunDir, d.RunDir)
			another := asUser(t, d.User(), "nothing", hostPID) // that is confined in no way
			pod := asUser(t, d.User(), "reaches the pair", hostPID)
			reached := stops(pod)
			for line := range strings.Lines(reached) {
				if !strings.HasSuffix(line, fmt.Sprintf(" process %d\n", another.PID)) {
					t.Errorf("a process of the daemon's user %s", line)
				}
			}
			if (reached != "") != hostPID {
				t.Errorf("of process %d, it has reached %q", another.PID, reached)
			}
			if after, _ := d.Pair(); after != before {
				t.Errorf("process %d serves, and served before: %d", after, before)
			}
		})
	}
}

// A call-out waits in the kernel for execve(2) of the process that it starts, and has the lock of
// all call-outs meanwhile.
func TestANewbornProcessThatIsStoppedHoldsNobody(t *testing.T) {
	const limit = 40 * time.Second
	for name, hostPID := range map[string]bool{"with hostPID": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			d := testnode.Install(t)
			d.Mount()
			d.Pair()
			pod := asUser(t, d.User(), "stops newborn processes", hostPID)
			done := make(chan error, 1)
			for i := range 10 {
				d.ReplaceBinary([]string{testnode.Newer, testnode.Binary}[i%2])
				go func() { done <- d.Command("upgrade").Run() }()
				var err error
				select {
				case err = <-done:
				case <-time.After(limit):
					t.Errorf("upgrade has not ended after %v", limit)
				}
				// On a loaded machine, it may come too late.
				if err != nil || !hostPID || t.Failed() {
					break
				}
			}
			if stopped := stops(pod); (stopped != "") != hostPID {
				t.Errorf("it has stopped %q", strings.Fields(stopped))
			}
			ends(d, "mount", t.TempDir(), testnode.Edit(testnode.PodUID, uidOf(1)))
		})
	}
}
