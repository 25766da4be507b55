package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestStatusTellsWhatBecomesOfAProgram(t *testing.T) {
	t.Parallel()
	n, began := newNode(t), time.Now()
	client, server := n.volume(podUID, "data"), n.volume(podUID, "data-server")
	n.must("mount", client, options(podUID, "wait", "1h"))
	n.must("mount", server, options(podUID, "serves", "data"))
	is := func(state string, restarts, waiting int) {
		t.Helper()
		eventually(t, "it is "+state, func() bool {
			s := n.status().Programs
			return len(s) == 1 && s[0].State == state && s[0].Restarts == restarts && s[0].Waiting == waiting && s[0].Name == "data" && s[0].Pod == "shop/web-0"
		})
	}
	is("waiting", 0, 0)
	reader := n.inContainer(client, server, "cat", "/mnt/data/text")
	must(t, reader.Start())
	is("waiting", 0, 1)
	since := n.status().Programs[0].Since
	if age := time.Since(since); age < -time.Second || age > time.Minute {
		t.Errorf("it waits for %v", age)
	}
	n.kills(n.status().Mounter.PID) // its spare knows as much
	is("waiting", 0, 1)
	if s := n.status().Programs[0]; !s.Since.Equal(since) {
		t.Errorf("since %v it waits since %v", since, s.Since)
	}
	n.serves(client, server, "--restart")
	must(t, reader.Wait())
	is("served", 0, 0)
	first := n.status().Programs[0]
	if executable, err := os.Readlink("/proc/" + strconv.Itoa(first.PID) + "/exe"); err != nil || executable != self(t) {
		t.Errorf("the program is process %d, which executes %s, %v", first.PID, executable, err)
	}
	if first.Since.Before(began.Add(-time.Second)) || first.Since.After(time.Now().Add(time.Second)) {
		t.Errorf("it is served since %v", first.Since)
	}
	n.kills(first.PID)
	is("served", 1, 0)

	n.kills(n.status().Mounter.PID)
	is("served", 1, 0)
	if text, err := n.command("status").Output(); err != nil || !strings.Contains(string(text), "came back 1 times, 0 wait, volume data of pod shop/web-0") {
		t.Errorf("%v: %s", err, text)
	}
	n.must("unmount", client)
	n.must("unmount", server)
	// A program that asked to serve just before is refused, and in the table meanwhile.
	eventually(t, "no program is known", func() bool { return len(n.status().Programs) == 0 })
}

func TestStatusTellsOfAProgramThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	for wait, dead := range map[string]string{"1h": "program dead", "100ms": "gone", "0": "gone"} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			client, server := n.volume(podUID, "data"), n.volume(podUID, "data-server")
			n.must("mount", client, options(podUID, "wait", wait))
			n.must("mount", server, options(podUID, "serves", "data"))
			is := func(state string) {
				t.Helper()
				eventually(t, "it is "+state, func() bool { return n.status().Programs[0].State == state })
			}
			if dead == "gone" { // nobody comes
				if got := n.reads(client, server); !strings.Contains(got, "not connected") {
					t.Errorf("without a program: %q", got)
				}
				is(dead)
			}
			end := n.serves(client, server)
			is("served")
			end()
			is(dead)
		})
	}
}

// The kubelet mounts all volumes of a pod that its containers mount before it starts one: a client
// volume that is not there is a wrong name. The user reads so where he looks first, in what the
// program prints; and the administrator in status. One that is mounted later all the same, for a
// container that is added, is served.
func TestAServerWithoutAClient(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	data, server := n.volume(podUID, "data"), n.volume(podUID, "data-server")
	n.must("mount", data, options(podUID))
	n.must("mount", server, options(podUID, "serves", "dta"))
	last := 0
	serves := func(name, problem string) { // another process than before
		t.Helper()
		eventually(t, fmt.Sprintf("a program serves volume %q", name), func() bool {
			for _, p := range n.status().Programs {
				if p.State == "served" && p.Name == name && strings.Contains(p.Problem, problem) && p.PID != 0 && p.PID != last {
					last = p.PID
					return true
				}
			}
			return false
		})
	}
	program := n.inContainer(data, server, "/mnt/server/pod-fuse", "run", "--restart", "--", self(t), "{}")
	printed := n.prints(program)
	serves("", `; the pod has "data"`)
	want := fmt.Sprintf("pod-fuse: no volume \"dta\" of driver %s is mounted in this pod; the program serves nobody until there is one; the pod has \"data\"; for a claim, serves takes the persistent volume's name\n", n.name)
	if got := printed(); got != want {
		t.Errorf("its launcher printed %q, want %q", got, want)
	}
	if s := n.status().Programs; len(s) != 2 || s[0].State != "waiting" || s[0].Problem != "the pod has no server volume for it" {
		t.Errorf("of a client without a server, status says %+v", s)
	}
	n.kills(last)
	serves("", "no volume of the name")
	if got := printed(); strings.Count(got, want) != 1 {
		t.Errorf("started again, its launcher printed %q", got)
	}

	later := n.volume(podUID, "dta")
	n.must("mount", later, options(podUID, "kubernetes.io/pvOrVolumeName", "dta"))
	if got := n.reads(later, server); got != "hello" {
		t.Errorf("of the volume that was mounted later, %q is read", got)
	}
	n.kills(last)
	serves("dta", "")
	if got := n.reads(later, server); got != "hello" {
		t.Errorf("of the next program, %q is read", got)
	}
	must(t, program.Process.Kill())
	_ = program.Wait()
	printed = n.prints(n.inContainer(later, server, "/mnt/server/pod-fuse", "run", "--", self(t), "{}"))
	serves("dta", "")
	if got := printed(); got != "" {
		t.Errorf("when there is a volume, a launcher printed %q", got)
	}
	n.must("unmount", later)
	n.must("unmount", server)
	if s := n.status().Programs; len(s) != 1 || s[0].State != "waiting" {
		t.Errorf("after the end: %+v", s)
	}
}

// A program that mounts by fusermount reads the same by that.
func TestFusermountTellsThatThereIsNoVolume(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	data, server := n.volume(podUID, "data"), n.volume(podUID, "data-server")
	n.must("mount", data, options(podUID))
	n.must("mount", server, options(podUID, "serves", "dta"))
	const own = `mkdir /mnt/own && PATH=/mnt/server:$PATH && exec "$0" /mnt/own`
	printed := n.prints(n.inContainer(data, server, "sh", "-c", own, self(t)))
	want := fmt.Sprintf("fusermount3: no volume \"dta\" of driver %s is mounted in this pod; the program serves nobody until there is one; the pod has \"data\"; for a claim, serves takes the persistent volume's name\n", n.name)
	eventually(t, "the program serves", func() bool {
		s := n.status().Programs
		return len(s) == 2 && (s[0].State == "served" || s[1].State == "served")
	})
	if got := printed(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// prints starts a command that ends with the test, and returns what it has printed until now.
func (n node) prints(command *exec.Cmd) (text func() string) {
	n.t.Helper()
	output, err := os.CreateTemp(n.t.TempDir(), "output")
	must(n.t, err)
	command.Stdout, command.Stderr = output, output
	must(n.t, command.Start())
	n.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		output.Close()
		if n.t.Failed() {
			n.t.Logf("%q printed: %s", command.Args, read(n.t, output.Name()))
		}
	})
	return func() string { return read(n.t, output.Name()) }
}

// The second program is refused while the first one serves, and takes its place after that.
func TestTwoServerVolumesOfOneClient(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	second := n.volume(podUID, "second")
	n.must("mount", second, options(podUID, "serves", "data"))
	end := n.serves(client, server)
	if got := n.reads(client, server); got != "hello" {
		t.Fatalf("read %q", got)
	}
	refused := n.inContainer(client, second, "/mnt/server/pod-fuse", "run", "--", self(t), "{}")
	printed := n.prints(refused)
	eventually(t, "the second program is refused, and asks again", func() bool {
		return strings.Contains(printed(), "another program serves the volume")
	})
	must(t, refused.Process.Kill())
	_ = refused.Wait()
	end()
	n.serves(client, second)
	if got := n.reads(client, server); got != "hello" {
		t.Errorf("read %q", got)
	}
}

// In another mount namespace, as the installer's, the flags of a mount may be others: they say
// nothing of the volume.
func TestStatusInAnotherMountNamespace(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	for _, flags := range []string{"rw,suid,dev,exec", "ro,nosuid,nodev,noexec"} {
		there := n.command("status", "-o", "json")
		there.Args = append([]string{"unshare", "--mount", "sh", "-c",
			`mount -o remount,bind,` + flags + ` "$1" && mount -o remount,bind,` + flags + ` "$2" && shift 2 && exec "$@"`, "sh", client, server}, there.Args...)
		path, err := exec.LookPath("unshare")
		must(t, err)
		there.Path = path
		var s status
		output, err := there.Output()
		if err == nil {
			err = json.Unmarshal(output, &s)
		}
		must(t, err)
		if len(s.Volumes) != 2 || s.Volumes[0].State != "ok" || s.Volumes[1].State != "ok" {
			t.Errorf("with %s: %+v", flags, s.Volumes)
		}
	}
}
