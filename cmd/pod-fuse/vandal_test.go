package main_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/e2e/vandal"
	"example.com/pod-info-fuse/podfuse/wire"
)

// vandalVariable names the host's file that a vandal wants changed.
const vandalVariable = "POD_FUSE_TEST_VANDAL"

// Root of a pod, in a container as runtimes make them, does its worst to what it has of the driver.
// Another pod, which was there before or comes later, has its launcher and its socket; no file of
// the host changes.
func TestRootOfAPodBesideAnother(t *testing.T) {
	const otherPod, laterPod = "88888888-8888-4888-8888-888888888888", "99999999-9999-4999-8999-999999999999"
	n := newNode(t)
	pod := func(uid string) (client, server string) {
		t.Helper()
		client, server = n.volume(uid, "data"), n.volume(uid, "data-server")
		n.must("mount", client, options(uid))
		n.must("mount", server, options(uid, "serves", "data"))
		return client, server
	}
	client, server := pod(podUID)
	otherClient, otherServer := pod(otherPod)
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, []byte("the host's"), 0o600))

	attacker := n.inContainer(client, server, self(t))
	attacker.Env = append(os.Environ(), vandalVariable+"="+victim)
	attacker.Stderr = os.Stderr
	input, err := attacker.StdinPipe()
	must(t, err)
	output, err := attacker.StdoutPipe()
	must(t, err)
	must(t, attacker.Start())
	defer func() { input.Close(); _ = attacker.Wait() }()
	for lines := bufio.NewScanner(output); lines.Scan() && lines.Text() != vandal.Done; {
		t.Errorf("root of a pod %s", lines.Text())
	}

	// The kubelet repeats itself: root works on what the pod has changed.
	n.must("mount", server, options(podUID, "serves", "data"))
	n.must("unmount", server)
	n.must("mount", server, options(podUID, "serves", "data"))
	laterClient, laterServer := pod(laterPod)
	if info, err := os.Stat(victim); err != nil || info.Mode() != 0o600 || read(t, victim) != "the host's" {
		t.Errorf("the host's file: %v, %v", err, info)
	}
	for who, volumes := range map[string][2]string{"the other pod": {otherClient, otherServer}, "a later pod": {laterClient, laterServer}} {
		for _, name := range append([]string{wire.Binary}, wire.Proxies...) {
			if read(t, filepath.Join(volumes[1], name)) != read(t, n.path) {
				t.Errorf("%s has another %s", who, name)
			}
		}
		began := time.Now()
		end := n.servesAsUser(volumes[0], volumes[1])
		if got := n.reads(volumes[0], volumes[1]); got != "hello" {
			t.Errorf("%s: %q is read", who, got)
		}
		if took := time.Since(began); took > 20*time.Second { // whoever waits for a lease does so for 45
			t.Errorf("%s: its program served after %v", who, took)
		}
		end()
	}
	for _, v := range n.status().Volumes {
		if v.State != "ok" {
			t.Errorf("status: %+v", v)
		}
	}
	watch := stopwatch.Start()
	n.must("unmount", server)
	if took, late := watch.Stop(); took > time.Second {
		t.Errorf("unmount took %v, and %v in which the machine was late", took, late)
	}
}

// servesAsUser starts the program in a container as an ordinary user, without any capability.
func (n node) servesAsUser(client, server string) (end func()) {
	n.t.Helper()
	program := filepath.Join(filepath.Dir(binary), "program") // self is in a directory of root's
	if _, err := os.Stat(program); err != nil {
		must(n.t, os.WriteFile(program, []byte(read(n.t, self(n.t))), 0o755))
	}
	// The shell stays, which ends with the test: a process that changes its user does not.
	command := n.inContainer(client, server, "sh", "-c", `"$@"; exit $?`, "sh", "setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
		"/mnt/server/pod-fuse", "run", "--", program, "{}")
	var output strings.Builder
	command.Stdout, command.Stderr = &output, &output
	must(n.t, command.Start())
	end = func() {
		_ = command.Process.Kill()
		if err := command.Wait(); n.t.Failed() {
			n.t.Logf("the user's program: %v: %s", err, output.String())
		}
	}
	return end
}
