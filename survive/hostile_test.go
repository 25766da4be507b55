package survive_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/testnode"
)

// hostile puts a version into the driver's place whose daemon somebody has taken over;
// see e2e/attack and e2e/builds.
func hostile(d testnode.Driver, version string) {
	d.T.Helper()
	d.ReplaceBinary(testnode.Build(d.T, version, "attack"))
}

// A daemon that was taken over calls a volume a link to a directory of the host.
func TestALinkInThePlaceOfAVolumeLeadsNowhere(t *testing.T) {
	victim := t.TempDir()
	testnode.Write(t, filepath.Join(victim, "pod.uid"), "secret\n")
	d := testnode.Install(t)
	dead := d.Mount()
	container := startContainer(t, dead)
	d.KillPair()
	hostile(d, "link:"+victim)
	dir := t.TempDir()
	// It heals as well, a directory and a file of it.
	if a := d.CallThatEnds("mount", dir, testnode.GoodOptions); a.Status != "Failure" || !strings.Contains(a.Message, "is a symbolic link") {
		t.Errorf("mount: %+v", a)
	}
	if got, err := os.ReadFile(dir + "/pod.uid"); err == nil {
		t.Errorf("the volume is a directory of the host: %q", got)
	}
	if count := testnode.MountsOn(t, dir); count != 0 || len(d.Records()) != 1 {
		t.Errorf("%d mounts, records %q", count, d.Records())
	}
	for _, path := range []string{"volume/pod.uid", "subpath"} {
		if got := container.read(path); got != "" {
			t.Errorf("%s in the container: %q", path, got)
		}
	}
	if got, err := os.ReadFile(dead + "/pod.uid"); err == nil {
		t.Errorf("the volume that was healed: %q", got)
	}
}

// When a mount fails over one that is dead, the dead one has a record, also if that was lost
// before.
func TestAMountThatFailsOverADeadOne(t *testing.T) {
	for name, lost := range map[string]bool{"its record is there": false, "its record was lost": true} {
		t.Run(name, func(t *testing.T) {
			d := testnode.Install(t)
			dir := d.Mount()
			d.KillPair()
			hostile(d, "link:/")
			if records := d.Records(); len(records) != 1 {
				t.Fatalf("records %q", records)
			} else if lost {
				if err := os.Remove(records[0]); err != nil {
					t.Fatal(err)
				}
			}
			if a := d.CallThatEnds("mount", dir, testnode.GoodOptions); a.Status != "Failure" || !strings.Contains(a.Message, "is a symbolic link") {
				t.Errorf("mount: %+v", a)
			}
			if count := testnode.MountsOn(t, dir); count != 1 || len(d.Records()) != 1 {
				t.Errorf("%d mounts, records %q", count, d.Records())
			}
			d.Must("unmount", dir)
			if count := testnode.MountsOn(t, dir); count != 0 || len(d.Records()) != 0 {
				t.Errorf("after unmount: %d mounts, records %q", count, d.Records())
			}
		})
	}
}

// A daemon that was taken over reads a request and does not answer it, and the one
// that is started in its place does the same.
func TestMountEndsWhateverTheDaemonDoes(t *testing.T) {
	d := testnode.Install(t)
	good := filepath.Join(t.TempDir(), "good")
	if err := os.Link(d.Path, good); err != nil {
		t.Fatal(err)
	}
	hostile(d, "silent")
	dir := t.TempDir()
	a := d.CallThatEnds("mount", dir, testnode.GoodOptions)
	if a.Status != "Failure" || !strings.Contains(a.Message, "the daemon does not answer") {
		t.Errorf("mount: %+v", a)
	}
	if count := testnode.MountsOn(t, dir); count != 0 || len(d.Records()) != 0 {
		t.Errorf("%d mounts, records %q", count, d.Records())
	}
	d.ReplaceBinary(good)
	if a := d.CallThatEnds("mount", dir, testnode.GoodOptions); a.Status != "Success" {
		t.Fatalf("mount by an honest version: %+v", a)
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

// A daemon that does not answer keeps who asks it waiting, and no other pod: the lock that a mount
// needs is free meanwhile.
func TestNobodyWaitsForTheLockWhileADaemonIsAsked(t *testing.T) {
	for _, verb := range []string{"init", "upgrade"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel() // it waits for seconds
			d := testnode.Install(t)
			d.Mount()
			active, standby := d.Pair()
			d.StopPair()
			if verb == "upgrade" {
				d.ReplaceBinary(testnode.Newer)
			}
			lock, err := os.Open(filepath.Join(d.RunDir, "lock"))
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			done := make(chan struct{})
			begun := time.Now()
			go func() { _ = d.Command(verb).Run(); close(done) }()
			longest, free := time.Duration(0), time.Now()
			for waits := true; waits; {
				select {
				case <-done:
					waits = false
				case <-time.After(5 * time.Millisecond):
				}
				if unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
					_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
					free = time.Now()
				}
				longest = max(longest, time.Since(free))
			}
			t.Logf("it took %v, and the lock was kept for %v", time.Since(begun), longest)
			if longest > 5*time.Second {
				t.Errorf("the lock was kept for %v", longest)
			}
			resume(t, active, standby)
		})
	}
}

// One wait, and not one after the other: for the mount, whose server is stopped, and for the
// control socket, as nobody knows who has a lock.
func TestAStaleLockCostsOneWait(t *testing.T) {
	t.Parallel() // it waits for seconds
	d := testnode.Install(t)
	dir := d.Mount()
	active, standby := d.Pair()
	if err := unix.Kill(active, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testnode.Kill(t, standby)
	testnode.Eventually(t, "the standby's lock is free", func() bool { return holder(d, 1) == 0 })
	_, unlock := lockFor(d, 1)
	defer unlock()
	begun := time.Now()
	if a := d.CallThatEnds("mount", t.TempDir(), testnode.Edit(testnode.PodUID, uidOf(1))); a.Status != "Success" {
		t.Errorf("mount: %+v", a)
	}
	if took := time.Since(begun); took > 18*time.Second {
		t.Errorf("it took %v", took)
	} else {
		t.Logf("it took %v", took)
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

// A mount that has waited long for the lock still has the second that a daemon which is well needs.
func TestAMountThatHasWaitedLongAsksTheDaemon(t *testing.T) {
	t.Parallel() // it waits for seconds
	d := testnode.Install(t)
	d.Mount()
	active, standby := d.Pair()
	lock, err := os.Open(filepath.Join(d.RunDir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Second, func() { _ = unix.Flock(int(lock.Fd()), unix.LOCK_UN) })
	if a := d.CallThatEnds("mount", t.TempDir(), testnode.Edit(testnode.PodUID, uidOf(1))); a.Status != "Success" {
		t.Errorf("mount: %+v", a)
	}
	if nowActive, nowStandby := d.Pair(); nowActive != active || nowStandby != standby {
		t.Errorf("processes %d and %d serve, before %d and %d", nowActive, nowStandby, active, standby)
	}
}

// What the kernel remembers of a daemon is no sign of its life.
func TestAnAnswerForEverIsNoSignOfLife(t *testing.T) {
	d := testnode.Install(t)
	hostile(d, "once")
	dir := d.Mount()
	d.Must("init") // is answered
	silent, _ := d.Pair()
	if a := d.CallThatEnds("init"); a.Status != "Success" {
		t.Fatalf("init: %+v", a)
	}
	if active, _ := d.Pair(); active == silent {
		t.Errorf("process %d, which does not answer, is taken for one that does", active)
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

// A standby that was taken over sends the process that serves more than that can answer.
func TestAFloodOfSignsOfLifeKeepsNobodyWaiting(t *testing.T) {
	d := testnode.Install(t)
	hostile(d, "floods")
	d.Mount()
	testnode.Eventually(t, "there is a standby", func() bool { return d.Status().Daemon.Standby != nil })
	time.Sleep(time.Second) // so that nothing goes into the standby's queue any more
	watch := stopwatch.Start()
	for range 10 {
		if s := d.Status().Daemon; s.Error != "" {
			t.Errorf("status: %+v", s)
		}
	}
	if took, late := watch.Stop(); took > 5*time.Second {
		t.Errorf("status took %v, ten times, and %v in which the machine was late", took, late)
	}
	watch = stopwatch.Start()
	d.ReplaceBinary(testnode.Binary)
	ends(d, "upgrade")
	if took, late := watch.Stop(); took > 2500*time.Millisecond {
		t.Errorf("upgrade took %v, and %v in which the machine was late", took, late)
	}
	d.Pair()
}

// A daemon that was taken over says that it is another process: somebody else's, or one that
// has got the daemon's user. Nothing of that process is told as the daemon's.
func TestNoOtherProcessIsShownAsTheDaemon(t *testing.T) {
	pod := exec.Command("/proc/self/exe")
	pod.Env = append(os.Environ(), sameUser+"=waits")
	process := testnode.Started(t, pod)
	for whose, pid := range map[string]int{"root's": 1, "of the daemon's user": process.PID} {
		t.Run(whose, func(t *testing.T) {
			version := fmt.Sprintf("names:%d", pid)
			d := testnode.Place(t)
			w := d.Watch(testnode.Build(t, version, "attack"), "install")
			w.IsReady()
			d.Mount()
			if pid == process.PID {
				if said := process.Does("%d", d.User().Uid); said != "ready" {
					t.Fatal(said)
				}
			}
			testnode.Eventually(t, "there is a standby", func() bool { return d.Status().Daemon.Standby != nil })
			s := d.Status().Daemon
			if s.Active.PID != 0 || s.Standby.PID != 0 || s.Confinement.Active != nil || s.Confinement.Standby != nil ||
				s.Cgroup != "" || s.Limits.Threads != 0 || s.Limits.Memory != 0 || !strings.Contains(s.Error, fmt.Sprintf("process %d ", pid)) {
				t.Errorf("status tells of process %d: %+v", pid, s)
			}
			output, err := d.Command("status").Output()
			for _, want := range []string{"active         a process that is not known, version " + version, "confinement    unknown\n"} {
				if err != nil || !strings.Contains(string(output), want) {
					t.Errorf("status: %v; no %q in:\n%s", err, want, output)
				}
			}
			now := w.Metrics()
			for name := range now {
				if strings.HasPrefix(name, "confinement") {
					t.Errorf("metrics tell of process %d: %s %v", pid, name, now[name])
				}
			}
			if now[fmt.Sprintf(`process_info{role="standby",version=%q}`, version)] != 1 {
				t.Errorf("metrics do not tell of the standby: %v", now)
			}
		})
	}
}

// The kernel names somebody else's process as the holder of a lock, and nobody answers.
func TestNoHolderOfALockIsShownAsTheDaemon(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	d.KillPair()
	innocent, unlock := lockFor(d, 0)
	defer unlock()
	if s := d.Status().Daemon; s.Active == nil || s.Active.PID != 0 || s.Cgroup != "" || s.Limits.Threads != 0 {
		t.Errorf("status tells of process %d: %+v", innocent, s)
	}
}
