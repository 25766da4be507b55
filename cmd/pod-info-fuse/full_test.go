package main_test

import (
	"bufio"
	encoding "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// withSecret are options that no log may have in it. The kubelet logs them when a
// call-out exits with another status than 0, which call checks.
var withSecret = edit("{", `{"kubernetes.io/secret/password":"aHVudGVyMg==",`)

// runOf gives the driver a run directory of so many pages, which release takes away.
func (d installed) runOf(pages int) (release func()) {
	d.t.Helper()
	if err := os.MkdirAll(d.runDir, 0o750); err != nil {
		d.t.Fatal(err)
	}
	if err := unix.Mount("run", d.runDir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=750", pages*os.Getpagesize())); err != nil {
		d.t.Fatal(err)
	}
	return func() {
		if output, err := d.command("stop", "--force").CombinedOutput(); err != nil {
			d.t.Errorf("stop --force: %v: %s", err, output)
		}
		if err := unix.Unmount(d.runDir, unix.MNT_DETACH); err != nil {
			d.t.Error(err)
		}
		if err := os.Remove(d.runDir); err != nil {
			d.t.Error(err)
		}
	}
}

// Wherever the space ends while a call-out uses it: the answer is right, and so is the
// exit status.
func TestAFullRunDirectory(t *testing.T) {
	d := install(t)
	outcomes := map[string]int{}
	for pages := 1; pages <= 10; pages++ {
		release := d.runOf(pages)
		dir := t.TempDir()
		a := d.call("mount", dir, withSecret)
		outcomes[a.Status]++
		if a.Status == "Success" {
			if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
				t.Errorf("%d pages: pod.uid is %q", pages, got)
			}
		} else {
			if !strings.Contains(a.Message, "no space left on device") || !strings.Contains(a.Message, d.runDir) {
				t.Errorf("%d pages: %+v", pages, a)
			}
			if mountsOn(t, dir) != 0 || len(d.records()) != 0 {
				t.Errorf("%d pages: %d mounts, records %q", pages, mountsOn(t, dir), d.records())
			}
		}
		d.must("unmount", dir)
		gone(t, d, dir)
		release()
	}
	if outcomes["Success"] == 0 || outcomes["Failure"] == 0 {
		t.Errorf("not both of what can happen: %v", outcomes)
	}
}

// On a node that has run well, what fills up later keeps new volumes away, and
// nothing else.
func TestARunDirectoryThatFillsUp(t *testing.T) {
	d := install(t)
	defer d.runOf(20)()
	dir, other := d.mount(), t.TempDir()
	fill(t, filepath.Join(d.runDir, "filler"))
	if a := d.call("mount", other, withSecret); a.Status != "Failure" || !strings.Contains(a.Message, "no space left on device") {
		t.Errorf("mount: %+v", a)
	}
	if mountsOn(t, other) != 0 || len(d.records()) != 1 {
		t.Errorf("%d mounts, records %q", mountsOn(t, other), d.records())
	}
	d.must("init")
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.must("unmount", dir)
	gone(t, d, dir)
	// Fifteen numbers for each call-out, of which the first are successes and failures.
	var counts struct{ Init, Mount, Unmount, Other [15]uint64 }
	if err := encoding.Read(strings.NewReader(read(t, d.runDir, "callouts")), encoding.NativeEndian, &counts); err != nil {
		t.Fatal(err)
	}
	if counts.Mount[0] != 1 || counts.Mount[1] != 1 || counts.Init[0] != 1 || counts.Unmount[0] != 1 {
		t.Errorf("counted are %v", counts)
	}
}

// Each upgrade costs a new daemon. Where there is no space to note one, it waits for that.
func TestAnUpgradeThatCannotBeNotedIsNotRepeated(t *testing.T) {
	// Without cgroups, no note of them makes room when it is removed. The mounts are this test's.
	if err := unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	d := install(t)
	defer d.runOf(20)()
	l := readAll(t, d.mount())
	d.pair()
	filler := filepath.Join(d.runDir, "filler")
	fill(t, filler)
	d.replaceBinary(newer)
	d.must("init")
	active, _ := d.pair()
	d.must("init")
	if again, _ := d.pair(); again != active {
		t.Errorf("a second init replaces process %d by %d", active, again)
	}
	if output, err := d.command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "no space left on device") {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d.must("init")
	if s := d.status().Daemon; s.Active == nil || s.Active.Version != "1.2.4" || s.UpgradeError != "" {
		t.Errorf("with space: %+v", s)
	}
	l.goesOn()
	l.stop()
}

// fill writes a file until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, os.Getpagesize()))
	}
}

// A call-out waits for a lock for a moment, to be counted. A signal then finds the answer
// given, and a status that is not 0 would have the kubelet log the secret.
func TestASignalAfterTheAnswer(t *testing.T) {
	d := install(t)
	dir := d.mount()
	counts, err := os.Open(d.runDir + "/callouts")
	if err != nil {
		t.Fatal(err)
	}
	defer counts.Close()
	if err := unix.Flock(int(counts.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1} {
		command := d.command("mount", dir, withSecret)
		stdout, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		answered := time.Now()
		if err := command.Process.Signal(signal); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
		if err := command.Wait(); err != nil || !strings.Contains(line, "Success") {
			t.Errorf("%v: %q, %v", signal, line, err)
		}
		if took := time.Since(answered); took > forever {
			t.Errorf("%v: it ended %v after the answer", signal, took)
		}
	}
}
