package survive_test

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

	"example.com/pod-info-fuse/internal/testnode"
)

// withSecret are options that no log may have in it. The kubelet logs them when a
// call-out exits with another status than 0, which call checks.
var withSecret = testnode.Edit("{", `{"kubernetes.io/secret/password":"aHVudGVyMg==",`)

// runOf gives the driver a run directory of so many pages, which release takes away.
func runOf(d testnode.Driver, pages int) (release func()) {
	d.T.Helper()
	if err := os.MkdirAll(d.RunDir, 0o750); err != nil {
		d.T.Fatal(err)
	}
	if err := unix.Mount("run", d.RunDir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=750", pages*os.Getpagesize())); err != nil {
		d.T.Fatal(err)
	}
	return func() {
		if output, err := d.Command("stop", "--force").CombinedOutput(); err != nil {
			d.T.Errorf("stop --force: %v: %s", err, output)
		}
		if err := unix.Unmount(d.RunDir, unix.MNT_DETACH); err != nil {
			d.T.Error(err)
		}
		if err := os.Remove(d.RunDir); err != nil {
			d.T.Error(err)
		}
	}
}

// Wherever the space ends while a call-out uses it: the answer is right, and so is the
// exit status.
func TestAFullRunDirectory(t *testing.T) {
	d := testnode.Install(t)
	outcomes := map[string]int{}
	for pages := 1; pages <= 10; pages++ {
		release := runOf(d, pages)
		dir := t.TempDir()
		a := d.Call("mount", dir, withSecret)
		outcomes[a.Status]++
		if a.Status == "Success" {
			if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
				t.Errorf("%d pages: pod.uid is %q", pages, got)
			}
		} else {
			if !strings.Contains(a.Message, "no space left on device") || !strings.Contains(a.Message, d.RunDir) {
				t.Errorf("%d pages: %+v", pages, a)
			}
			if testnode.MountsOn(t, dir) != 0 || len(d.Records()) != 0 {
				t.Errorf("%d pages: %d mounts, records %q", pages, testnode.MountsOn(t, dir), d.Records())
			}
		}
		d.Must("unmount", dir)
		testnode.Gone(t, d, dir)
		release()
	}
	if outcomes["Success"] == 0 || outcomes["Failure"] == 0 {
		t.Errorf("not both of what can happen: %v", outcomes)
	}
}

// On a node that has run well, what fills up later keeps new volumes away, and
// nothing else.
func TestARunDirectoryThatFillsUp(t *testing.T) {
	d := testnode.Install(t)
	defer runOf(d, 20)()
	dir, other := d.Mount(), t.TempDir()
	fill(t, filepath.Join(d.RunDir, "filler"))
	if a := d.Call("mount", other, withSecret); a.Status != "Failure" || !strings.Contains(a.Message, "no space left on device") {
		t.Errorf("mount: %+v", a)
	}
	if testnode.MountsOn(t, other) != 0 || len(d.Records()) != 1 {
		t.Errorf("%d mounts, records %q", testnode.MountsOn(t, other), d.Records())
	}
	d.Must("init")
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.Must("unmount", dir)
	testnode.Gone(t, d, dir)
	// Fifteen numbers for each call-out, of which the first are successes and failures.
	var counts struct{ Init, Mount, Unmount, Other [15]uint64 }
	if err := encoding.Read(strings.NewReader(testnode.Read(t, d.RunDir, "callouts")), encoding.NativeEndian, &counts); err != nil {
		t.Fatal(err)
	}
	if counts.Mount[0] != 1 || counts.Mount[1] != 1 || counts.Init[0] != 1 || counts.Unmount[0] != 1 {
		t.Errorf("counted are %v", counts)
	}
}

// Each upgrade costs a new daemon. Where there is no space to note one, it waits for that.
func TestAnUpgradeThatCannotBeNotedIsNotRepeated(t *testing.T) {
	d := testnode.Install(t)
	// Without cgroups, no note of them makes room when it is removed. The mounts are this test's.
	if err := unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	defer runOf(d, 20)()
	l := readAll(t, d.Mount())
	d.Pair()
	filler := filepath.Join(d.RunDir, "filler")
	fill(t, filler)
	d.ReplaceBinary(testnode.Newer)
	d.Must("init")
	active, _ := d.Pair()
	d.Must("init")
	if again, _ := d.Pair(); again != active {
		t.Errorf("a second init replaces process %d by %d", active, again)
	}
	if output, err := d.Command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "no space left on device") {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d.Must("init")
	if s := d.Status().Daemon; s.Active == nil || s.Active.Version != "1.2.4" || s.UpgradeError != "" {
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
	d := testnode.Install(t)
	dir := d.Mount()
	counts, err := os.Open(d.RunDir + "/callouts")
	if err != nil {
		t.Fatal(err)
	}
	defer counts.Close()
	if err := unix.Flock(int(counts.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1} {
		command := d.Command("mount", dir, withSecret)
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
		if took := time.Since(answered); took > testnode.Forever {
			t.Errorf("%v: it ended %v after the answer", signal, took)
		}
	}
}
