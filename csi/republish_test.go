package csi_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// kill kills both processes that serve, of which neither can start another one meanwhile, and
// returns when they have ended.
func (w *world) kill() {
	w.t.Helper()
	pids := w.pair()
	for _, signal := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
		for _, pid := range pids {
			if err := unix.Kill(pid, signal); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	eventually(w.t, "both processes have ended", func() bool {
		return unix.Kill(pids[0], 0) == unix.ESRCH && unix.Kill(pids[1], 0) == unix.ESRCH
	})
}

// container starts a container that has a volume, and returns where its process sees it.
func (w *world) container(target string) (inside string, end func()) {
	w.t.Helper()
	command := exec.Command("unshare", "--mount", "sh", "-c", "echo; read line")
	input, err := command.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		w.t.Fatal(err)
	}
	end = sync.OnceFunc(func() { input.Close(); _ = command.Wait() })
	w.t.Cleanup(end)
	if _, err := output.Read(make([]byte, 1)); err != nil { // it has its mounts
		w.t.Fatal(err)
	}
	return fmt.Sprintf("/proc/%d/root%s", command.Process.Pid, target), end
}

// It takes no restart of anything: neither of the plugin, nor of the containers.
func TestARepublishOfOneVolumeHealsAllOfThem(t *testing.T) {
	w := serve(t)
	one, other := w.target(podUID, "info"), w.target(podUID, "other")
	w.mustPublish(one)
	w.mustPublish(other)
	inOne, endOne := w.container(one)
	inOther, endOther := w.container(other)
	w.kill()
	if _, err := os.ReadFile(filepath.Join(one, "pod.uid")); err == nil {
		t.Fatal("somebody serves")
	}
	w.mustPublish(one)
	for _, dir := range []string{one, other, inOne, inOther} {
		w.reads(dir)
	}
	if count := len(mounts()); count != 3 {
		t.Errorf("there are %d mounts, want the node's and two volumes: %q", count, mounts())
	}
	endOne()
	endOther()
	w.mustUnpublish(one)
	w.mustUnpublish(other)
	w.isGone(one)
	w.isGone(other)
}

// A kubelet before 1.37 removes a target that is not mounted any more.
func TestARepublishThatFailsLeavesTheVolumeMounted(t *testing.T) {
	for problem, spoil := range map[string]func(w *world, target string) (repair func()){
		"all is dead, and there is no /dev/fuse": func(w *world, _ string) func() {
			w.kill()
			if err := unix.Mount("/dev/null", "/dev/fuse", "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			return func() { _ = unix.Unmount("/dev/fuse", unix.MNT_DETACH) }
		},
		"the record is lost, and no space left for another": func(w *world, _ string) func() {
			records, _ := filepath.Glob("/run/pod-info-fuse/*/volumes/*")
			if len(records) != 1 || os.Remove(records[0]) != nil {
				t.Fatalf("records %q", records)
			}
			if err := unix.Mount("", filepath.Dir(records[0]), "tmpfs", unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			return func() { _ = unix.Unmount(filepath.Dir(records[0]), unix.MNT_DETACH) }
		},
		"the driver is not executable": func(w *world, _ string) func() {
			return w.takeAway()
		},
	} {
		t.Run(problem, func(t *testing.T) {
			w := serve(t)
			target := w.target(podUID, "info")
			w.mustPublish(target)
			repair := spoil(w, target)
			repair = sync.OnceFunc(repair)
			defer repair()
			before := mountsOn(target)
			if err := w.publish(target); err == nil {
				t.Error("it succeeds")
			}
			if after := mountsOn(target); len(before) != 1 || len(after) != 1 || before[0] != after[0] {
				t.Errorf("mounted are %q, and were %q", after, before)
			}
			repair()
			w.mustPublish(target)
			w.reads(target)
			w.mustUnpublish(target)
			w.isGone(target)
		})
	}
}

// The plugin lets no such request through; the driver must not rely on that.
func TestAMountForAnotherPodLeavesTheVolumeMounted(t *testing.T) {
	w := serve(t)
	target := w.target(podUID, "info")
	w.mustPublish(target)
	before := mountsOn(target)
	output, err := exec.Command(w.binary, "mount", target, fmt.Sprintf(`{"kubernetes.io/pod.uid": %q}`, otherUID)).Output()
	if !strings.Contains(string(output), "belongs to pod") {
		t.Errorf("mount: %s, %v", output, err)
	}
	if after := mountsOn(target); len(before) != 1 || len(after) != 1 || before[0] != after[0] {
		t.Errorf("mounted are %q, and were %q", after, before)
	}
	w.reads(target)
	w.mustUnpublish(target)
	w.isGone(target)
}

func mountsOn(target string) (lines []string) {
	for _, line := range mounts() {
		if strings.Contains(line, " "+target+" ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Some hundred lines a minute would be of no use to anybody.
func TestARepublishIsNotLogged(t *testing.T) {
	w := place(t)
	path := filepath.Join(w.kubelet, "driver.log")
	config := filepath.Join(filepath.Dir(w.binary), "config.json")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(`{"log": %q}`, path)), 0o644); err != nil {
		t.Fatal(err)
	}
	p := w.start()
	target := w.target(podUID, "info")
	for range 3 {
		w.mustPublish(target)
	}
	lines, err := os.ReadFile(path)
	if err != nil || strings.Count(string(lines), "mount "+target+": Success") != 1 {
		t.Errorf("the driver logs %s, %v; want one mount", lines, err)
	}
	if got := p.output.String(); strings.Count(got, target) != 1 || strings.Contains(got, "hunter2") {
		t.Errorf("the plugin logs %s; want one line with the target", got)
	}
	w.mustUnpublish(target)
}

// Somebody has removed the run directory: the target's path tells whose the volume is, and the
// next publication of each the rest.
func TestAVolumeWhoseRecordIsLostIsHealed(t *testing.T) {
	w := serve(t)
	target, other := w.target(podUID, "info"), w.target(podUID, "other")
	facts := with("facts", "pod.name")
	w.mustPublish(target, facts)
	w.mustPublish(other, facts)
	inside, end := w.container(other)
	w.kill()
	run, _ := filepath.Glob("/run/pod-info-fuse/*")
	if len(run) != 1 {
		t.Fatalf("run directories %q", run)
	}
	if err := unix.Unmount(filepath.Join(run[0], "fs"), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(run[0]); err != nil {
		t.Fatal(err)
	}
	w.mustPublish(target, facts)
	for _, dir := range []string{target, other, inside} {
		w.reads(dir)
	}
	w.mustPublish(other, facts) // a minute later
	for _, dir := range []string{target, other, inside} {
		if got, err := os.ReadFile(filepath.Join(dir, "pod.name")); err != nil || string(got) != "web-0\n" {
			t.Errorf("pod.name is %q, %v", got, err)
		}
	}
	end()
	w.mustUnpublish(target)
	w.mustUnpublish(other)
	w.isGone(target)
	w.isGone(other)
}

// A kubelet in a mount namespace of its own, as OpenShift's kubens, has both doors: each mounts on
// the node, and a loss is healed once, whoever comes first.
func TestBothDoorsOfAKubeletInAnotherMountNamespace(t *testing.T) {
	w := serve(t)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	kubelet := func(args ...string) string {
		script := `mount --make-rshared / && exec "$@"`
		output, err := exec.Command("unshare", append([]string{"--mount", "--propagation", "slave", "sh", "-c", script, "sh"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v: %s", args, err, output)
		}
		return string(output)
	}
	callOut := func(args ...string) {
		t.Helper()
		if answer := kubelet(append([]string{w.binary}, args...)...); !strings.Contains(answer, `"Success"`) {
			t.Errorf("%q: %s", args, answer)
		}
	}
	byFlex, byCSI := filepath.Join(w.kubelet, "pods", otherUID, "volumes", filepath.Base(filepath.Dir(w.binary)), "info"), w.target(podUID, "info")
	if err := os.MkdirAll(byFlex, 0o750); err != nil {
		t.Fatal(err)
	}
	callOut("mount", byFlex, `{"kubernetes.io/pod.uid":"`+otherUID+`"}`)
	w.mustPublish(byCSI)
	for _, heal := range []func(){func() { callOut("init") }, func() { w.mustPublish(byCSI) }} {
		w.kill()
		heal()
		pair := w.pair()
		callOut("init")
		w.mustPublish(byCSI)
		if now := w.pair(); !slices.Equal(now, pair) {
			t.Errorf("the processes %v became %v", pair, now)
		}
		for uid, dir := range map[string]string{otherUID: byFlex, podUID: byCSI} {
			w.readsOf(uid, dir)
			if got := kubelet("cat", filepath.Join(dir, "pod.uid")); got != uid+"\n" {
				t.Errorf("the kubelet reads %q, want %s", got, uid)
			}
		}
	}
	callOut("unmount", byFlex)
	w.mustUnpublish(byCSI)
	w.isGone(byCSI)
}
