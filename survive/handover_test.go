package survive_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// A daemon that was taken over says that it hands over, and goes on serving, with a child.
func TestNobodyOfTheOldVersionIsLeftAfterAnUpgrade(t *testing.T) {
	d := testnode.Install(t)
	log := filepath.Join(t.TempDir(), "log")
	testnode.Configure(t, d, fmt.Sprintf(`{"log": %q}`, log))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(testnode.Read(t, log))
		}
	})
	d.ReplaceBinary(testnode.Build(t, "stays", "attack"))
	dir := d.Mount()
	d.Pair()
	if got := testnode.Read(t, dir, "pod"); got != "stays" {
		t.Fatalf("before, it reads %q", got)
	}
	d.ReplaceBinary(testnode.Binary)
	if output, err := d.Command("upgrade").CombinedOutput(); err != nil {
		t.Fatalf("upgrade: %v: %s", err, output)
	}
	self := fmt.Sprintln(os.Getpid())
	for range 2000 {
		if got := testnode.Read(t, dir, "pod"); got != self {
			t.Fatalf("after the upgrade, it reads %q", got)
		}
	}
	active, standby := d.Pair()
	testnode.Eventually(t, "there are just two processes", func() bool { return len(testnode.DaemonsOf(d)) == 2 })
	if got := fmt.Sprint(testnode.DaemonsOf(d)); got != fmt.Sprint([]int{active, standby}) && got != fmt.Sprint([]int{standby, active}) {
		t.Errorf("processes %v, want %d and %d", got, active, standby)
	}
	time.Sleep(100 * time.Millisecond)
	testnode.Kill(t, active) // what is left would take over
	if got := testnode.Read(t, dir, "pod"); got != self {
		t.Fatalf("after a crash, it reads %q", got)
	}
	d.Pair()
}

// A daemon that was taken over hands over, and then takes the connection out of non-blocking mode,
// which is one for all who have it.
func TestWhoHandedOverCannotMakeTheOthersHang(t *testing.T) {
	d := testnode.Install(t)
	hostile(d, "blocks")
	dir := d.Mount()
	d.Pair()
	d.ReplaceBinary(testnode.Binary)
	ends(d, "upgrade")
	active, _ := d.Pair()
	l := readAtTimes(t, dir)
	time.Sleep(time.Second)
	if now, _ := d.Pair(); now != active {
		t.Errorf("process %d serves, and served no longer than a second: %d before", now, active)
	}
	testnode.Kill(t, active)
	d.Pair()
	l.goesOn()
	l.stop()
}

// A daemon that was taken over says that it has handed over, and has sent the new process away.
func TestTheWordOfTheOldVersionIsNotBelieved(t *testing.T) {
	for _, how := range []string{"ends", "stays"} {
		t.Run(how, func(t *testing.T) {
			d := testnode.Install(t)
			hostile(d, "pretends:"+how)
			dir := d.Mount()
			container := startContainer(t, dir)
			d.Pair()
			d.ReplaceBinary(testnode.Binary)
			if output, err := d.Command("upgrade").CombinedOutput(); err != nil || !strings.HasPrefix(string(output), "version 1.2.3 serves") {
				t.Errorf("upgrade: %v: %s", err, output)
			}
			if got, err := os.ReadFile(dir + "/pod.uid"); err != nil || string(got) != testnode.PodUID+"\n" {
				t.Fatalf("after the upgrade: %q, %v", got, err)
			}
			d.Pair()
			if s := d.Status(); s.Daemon.Active.Version != "1.2.3" || s.Daemon.UpgradeError != "" || s.Mount.State != "ok" {
				t.Errorf("%+v, mount %s", s.Daemon, s.Mount.State)
			}
			if got := container.read("volume/pod.uid"); got != testnode.PodUID {
				t.Errorf("in the container: %q", got)
			}
		})
	}
}

// A daemon that was taken over notes, as long as it lives, that processes have died of another
// pod's request. The version that comes after it knows nothing of that.
func TestAnotherVersionForgetsWhatADaemonSuspects(t *testing.T) {
	for how, replace := range map[string]func(d testnode.Driver){
		"upgrade": func(d testnode.Driver) { ends(d, "upgrade") },
		"loss":    func(d testnode.Driver) { d.KillPair() },
	} {
		t.Run(how, func(t *testing.T) {
			d := testnode.Install(t)
			dir := d.Mount()
			id := strings.TrimSuffix(filepath.Base(d.Records()[0]), ".json")
			d.Must("unmount", dir)
			hostile(d, "condemns:"+id)
			d.Must("init") // is an upgrade
			d.Pair()
			d.ReplaceBinary(testnode.Binary)
			replace(d)
			if a := d.Call("mount", dir, testnode.GoodOptions); a.Status != "Success" {
				t.Errorf("mount by the new version: %+v", a)
			}
		})
	}
}

// silentInAnUpgrade is a driver of which a new version is placed, while a daemon serves that does
// not say whether it hands over. readsOn checks what was open before.
func silentInAnUpgrade(t *testing.T) (d testnode.Driver, readsOn func()) {
	t.Helper()
	d = testnode.Install(t)
	hostile(d, "pretends:silent")
	file, err := os.Open(d.Mount() + "/pod.uid")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	d.Pair()
	d.ReplaceBinary(testnode.Binary)
	return d, func() {
		t.Helper()
		got := make([]byte, 100)
		if n, err := file.ReadAt(got, 0); err != nil && err != io.EOF || string(got[:n]) != testnode.PodUID+"\n" {
			t.Errorf("what was open before the upgrade reads %q, %v", got[:n], err)
		}
	}
}

// A daemon that does not say whether it hands over, and answers, is not ended: what pods have open
// would be dead.
func TestADaemonThatIsSilentInAnUpgradeServesOn(t *testing.T) {
	t.Parallel() // it waits for seconds
	d, readsOn := silentInAnUpgrade(t)
	active, standby := d.Pair()
	if output, err := d.Command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "does not answer") {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	readsOn()
	if nowActive, nowStandby := d.Pair(); nowActive != active || nowStandby != standby {
		t.Errorf("processes %d and %d serve, before %d and %d", nowActive, nowStandby, active, standby)
	}
	if s := d.Status().Daemon; !strings.Contains(s.UpgradeError, "does not answer") {
		t.Errorf("status: %+v", s)
	}
}

// A daemon that says nothing in an upgrade, and is late with its answer then, has as long as at any
// other time. Other pods' mounts do not wait for it.
func TestADaemonThatIsLateInAnUpgradeServesOn(t *testing.T) {
	t.Parallel() // it waits for seconds
	d, readsOn := silentInAnUpgrade(t)
	active, standby := d.Pair()
	lock, err := os.Open(filepath.Join(d.RunDir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	upgrade := d.Command("upgrade")
	if err := upgrade.Start(); err != nil {
		t.Fatal(err)
	}
	free := func() bool {
		if unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
			return false
		}
		return unix.Flock(int(lock.Fd()), unix.LOCK_UN) == nil
	}
	testnode.Eventually(t, "the upgrade has the lock", func() bool { return !free() })
	time.Sleep(5 * time.Second) // of fifteen, in which the daemon may say that it hands over
	d.StopPair()
	testnode.Eventually(t, "the lock is free", free)
	time.Sleep(3 * time.Second) // the daemon is asked, and says nothing
	if !free() {
		t.Error("the lock is not free while the daemon is asked")
	}
	resume(t, active, standby)
	if err := upgrade.Wait(); err == nil {
		t.Error("the upgrade did not fail")
	}
	readsOn()
	d.Pair()
}

// The daemon is stopped for good while an upgrade asks it: the upgrade starts none.
func TestNothingIsStartedWhereStopIsFasterThanAnUpgrade(t *testing.T) {
	t.Parallel() // it waits for seconds
	d := testnode.Install(t)
	hostile(d, "pretends:silent")
	d.Must("unmount", d.Mount())
	active, standby := d.Pair()
	d.ReplaceBinary(testnode.Binary)
	upgrade := d.Command("upgrade")
	if err := upgrade.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // of fifteen, in which the daemon may say that it hands over
	testnode.Suspend(t, active)
	testnode.Suspend(t, standby)
	if output, err := d.Command("stop", "--force").CombinedOutput(); err != nil { // it waits for the upgrade's lock
		t.Errorf("stop: %v: %s", err, output)
	}
	if err := upgrade.Wait(); err == nil {
		t.Error("the upgrade did not fail")
	}
	if _, err := os.Lstat(d.RunDir); !os.IsNotExist(err) {
		t.Errorf("the run directory is there: %v", err)
	}
}

// A daemon that was taken over does not avoid an upgrade by what it says.
func TestUpgradeReplacesWhoClaimsToBeTheNewVersion(t *testing.T) {
	d := testnode.Install(t)
	d.ReplaceBinary(testnode.Build(t, "says:1.2.3", "attack"))
	l := readAtTimes(t, d.Mount())
	before, _ := d.Pair()
	if got := d.Status().Daemon.Active.Version; got != "1.2.3" {
		t.Fatalf("it says that it has version %s", got)
	}
	d.ReplaceBinary(testnode.Binary)
	for _, want := range []string{"version 1.2.3 serves in the place of says:1.2.3", "nothing to do"} {
		output, err := d.Command("upgrade").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(output), want) {
			t.Errorf("upgrade: %v: %s; want %q", err, output, want)
		}
	}
	if after, _ := d.Pair(); after == before {
		t.Errorf("process %d still serves", before)
	}
	l.stop()
}

// The old process is killed when it has handed over, and before it says so. In this build
// the new one serves some time later.
func TestUpgradeOutlivesTheDeathOfTheOldProcessInTheMiddle(t *testing.T) {
	d := testnode.Install(t)
	d.ReplaceBinary(testnode.Build(t, "1.2.3", "slow"))
	l := readAtTimes(t, d.Mount())
	quick := d.By(testnode.Binary) // for what only looks
	old, _ := quick.Pair()
	d.ReplaceBinary(testnode.Build(t, "1.2.4", "slow"))
	upgrade := d.Command("upgrade")
	var output strings.Builder
	upgrade.Stdout, upgrade.Stderr = &output, &output
	if err := upgrade.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testnode.Forever); holder(d, 0) == old; time.Sleep(time.Millisecond) { // it soon ends
		if time.Now().After(deadline) {
			t.Fatal("the old process does not hand over")
		}
	}
	testnode.Kill(t, old)
	if err := upgrade.Wait(); err != nil {
		t.Errorf("upgrade: %v: %s", err, &output)
	}
	quick.Pair()
	if s := quick.Status().Daemon; s.Active.Version != "1.2.4" || s.UpgradeError != "" {
		t.Errorf("%+v", s)
	}
	l.goesOn()
	l.stop()
}

// A version that speaks another format of the pair's protocol than the one that serves
// either knows both, or is refused while the old pair serves.
func TestANewerFormatIsRefusedBeforeTheHandOver(t *testing.T) {
	other := testnode.Build(t, "speaks-newer", "newer")
	for _, row := range []struct{ name, serves, comes, want string }{
		{"upgrade", testnode.Binary, other, "it speaks format 2"},
		{"downgrade", other, testnode.Binary, "the pair is too new: it speaks format 2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := testnode.Install(t)
			if row.serves != testnode.Binary {
				d.ReplaceBinary(row.serves)
			}
			l := readAtTimes(t, d.Mount())
			active, standby := d.Pair()
			d.ReplaceBinary(row.comes)
			output, err := d.Command("upgrade").CombinedOutput()
			if err == nil || !strings.Contains(string(output), row.want) {
				t.Errorf("%v: %s, want %q", err, output, row.want)
			}
			tried := testnode.Read(t, d.RunDir, "upgrade-failed")
			d.Must("init") // does not try that again
			if s := d.Status().Daemon; !strings.Contains(s.UpgradeError, row.want) || testnode.Read(t, d.RunDir, "upgrade-failed") != tried {
				t.Errorf("status: %+v", s)
			}
			if output, err := d.Command("status").Output(); err != nil || !strings.Contains(string(output), "upgrade failed ") {
				t.Errorf("status: %v: %s", err, output)
			}
			w := d.Watch(d.Path, "install")
			w.Counts(map[string]float64{"upgrade_failed{}": 1})
			w.Ends()
			d.ReplaceBinary(row.serves)
			if nowActive, nowStandby := d.Pair(); nowActive != active || nowStandby != standby {
				t.Errorf("processes %d and %d, before %d and %d", nowActive, nowStandby, active, standby)
			}
			l.stop()
		})
	}
}

// On a loaded node, the old version is late with its answers. Here, it does not run at all.
func TestUpgradeWaitsForADaemonThatIsLate(t *testing.T) {
	t.Parallel() // it waits for seconds
	d := testnode.Install(t)
	d.Mount()
	active, standby := d.Pair()
	d.StopPair()
	d.ReplaceBinary(testnode.Newer)
	time.AfterFunc(3*time.Second, func() { resume(t, active, standby) })
	ends(d, "upgrade")
	if s := d.Status().Daemon; s.Active == nil || s.Active.Version != "1.2.4" {
		t.Errorf("%+v", s)
	}
}

// Nobody waits for ever for one that never answers, nor at each call-out.
func TestUpgradeGivesUpOnADaemonThatDoesNotAnswer(t *testing.T) {
	t.Parallel() // it waits for seconds
	d := testnode.Install(t)
	d.Mount()
	active, standby := d.Pair()
	d.StopPair()
	d.ReplaceBinary(testnode.Newer)
	begun := time.Now()
	if output, err := d.Command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "does not answer") {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	if took := time.Since(begun); took > 25*time.Second {
		t.Errorf("upgrade took %v", took)
	}
	resume(t, active, standby)
	d.Must("init")
	if s := d.Status().Daemon; s.Active == nil || s.Active.PID != active || !strings.Contains(s.UpgradeError, "does not answer") {
		t.Errorf("init after that: %+v", s)
	}
	ends(d, "upgrade")
	if s := d.Status().Daemon; s.Active == nil || s.Active.Version != "1.2.4" || s.UpgradeError != "" {
		t.Errorf("upgrade, once more: %+v", s)
	}
}

// resume lets stopped processes go on. The first may end the second, whom it has not heard of for
// so long.
func resume(t *testing.T, pids ...int) {
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGCONT); err != nil && err != unix.ESRCH {
			t.Error(err)
		}
	}
}
