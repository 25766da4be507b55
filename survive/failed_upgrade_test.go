package survive_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/builds"
	"example.com/pod-info-fuse/internal/testnode"
)

// attempts counts the upgrades that the log tells of.
func attempts(t *testing.T, log string) int {
	t.Helper()
	return strings.Count(testnode.Read(t, log), "to exits begins")
}

func TestAFailedUpgradeIsRepeatedOnlyWhenSomethingHasChanged(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	log := filepath.Join(filepath.Dir(facts), "log")
	d.Mount()
	d.Pair()
	broken := testnode.Build(t, "exits", "attack")
	d.ReplaceBinary(broken)
	for _, row := range []struct {
		name   string
		change func()
		tries  bool
	}{
		{"the first time", func() {}, true},
		{"nothing has changed", func() {}, false},
		{"the binary was touched", func() { touch(t, d.Path) }, false},
		{"the binary is another", func() { d.ReplaceBinary(testnode.CopyOf(t, broken)) }, true},
		{"the directory of facts is another", func() { testnode.Anew(t, facts, "eu-1\n") }, true},
		{"the configuration is another", func() {
			testnode.Configure(t, d, fmt.Sprintf(`{"log": %q, "factsDir": %q, "selinuxContext": "none"}`, log, facts))
		}, true},
		{"nothing has changed since", func() {}, false},
		{"the attempt was long ago", func() { longAgo(t, d) }, true},
	} {
		before := attempts(t, log)
		row.change()
		d.Must("init")
		if tried := attempts(t, log) > before; tried != row.tries {
			t.Errorf("%s: init tries the upgrade: %v, want %v", row.name, tried, row.tries)
		}
	}
	if output, err := d.Command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "died before it was ready") {
		t.Errorf("upgrade, when asked for, does not try: %v: %s", err, output)
	}
	d.ReplaceBinary(testnode.Binary)
	d.Must("init")
	if s := d.Status(); s.Daemon.UpgradeError != "" || s.Daemon.Active.Version != "1.2.3" {
		t.Errorf("after the broken version was taken back: %+v", s.Daemon)
	}
}

// longAgo makes the last upgrade have failed an hour or more before now.
func longAgo(t *testing.T, d testnode.Driver) {
	t.Helper()
	note := testnode.Read(t, d.RunDir, "upgrade-failed")
	hour := regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d`)
	if !hour.MatchString(note) {
		t.Fatalf("it does not say when it was: %s", note)
	}
	testnode.Write(t, filepath.Join(d.RunDir, "upgrade-failed"), hour.ReplaceAllString(note, time.Now().UTC().Add(-2*time.Hour).Format("2006-01-02T15")))
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedUpgradeIsNotBlamedOnTheFacts(t *testing.T) {
	d, _ := testnode.WithFacts(t, nil)
	d.Mount()
	d.Pair()
	d.ReplaceBinary(testnode.Build(t, "exits", "attack"))
	d.Must("init")
	s := d.Status()
	if s.Facts.Stale || !strings.Contains(s.Daemon.UpgradeError, "upgrade from version 1.2.3 to exits: ") {
		t.Errorf("facts %+v, upgrade failed: %q", s.Facts, s.Daemon.UpgradeError)
	}
	output, err := d.Command("status").Output()
	if err != nil || !strings.Contains(string(output), "upgrade failed ") || strings.Contains(string(output), "facts, problem") {
		t.Errorf("%v: %s", err, output)
	}
	d.ReplaceBinary(testnode.Binary)
}

// What watches over the driver calls it once, and not every ten seconds.
func TestAnInstallerThatWatchesDoesNotRepeatAFailedUpgrade(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	log := filepath.Join(filepath.Dir(facts), "log")
	d.Mount()
	d.Pair()
	testnode.Anew(t, facts, "eu-1\n")
	d.ReplaceBinary(testnode.Build(t, "exits", "attack"))
	d.Watch(d.Path, "install")
	testnode.Eventually(t, "it calls the driver", func() bool { return attempts(t, log) > 0 })
	time.Sleep(13 * time.Second) // more than an installer waits before it tries again
	if n := strings.Count(testnode.Read(t, log), "]: init: "); n != 1 || attempts(t, log) != 1 {
		t.Errorf("the driver was called %d times, and tried %d upgrades: %s", n, attempts(t, log), testnode.Read(t, log))
	}
	if err := os.Rename(facts, facts+".before"); err != nil { // removed, the next one could have its inode
		t.Fatal(err)
	}
	testnode.Anew(t, facts, "eu-2\n")
	testnode.Eventually(t, "it calls the driver for another directory", func() bool { return attempts(t, log) == 2 })
	if err := errors.Join(os.Remove(d.Path), os.Link(testnode.Binary, d.Path)); err != nil {
		t.Fatal(err)
	}
}

// The operator who installs a version reads the installer's log: init succeeds whatever happens.
func TestAnInstallerSaysThatItsVersionDoesNotTakeOver(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	d.Pair()
	w := d.Watch(testnode.Build(t, "exits", "attack"), "install")
	w.Logs("the version before serves on: upgrade from version 1.2.3 to exits: ")
	w.Ends()
	d.ReplaceBinary(testnode.Binary)
}

// A downgrade may meet what a newer version has recorded. It must find out before it takes over.
func TestAVersionThatCannotReadARecordDoesNotTakeOver(t *testing.T) {
	for name, later := range map[string][2]string{
		"record":     {`"format":1`, `"format":2`},
		"attributes": {`"attributes":{"format":1`, `"attributes":{"format":2`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := testnode.Install(t)
			l := readAll(t, d.Mount())
			other := t.TempDir()
			d.Must("mount", other, testnode.WithOption("pod.name"))
			var record string
			for _, v := range d.Status().Volumes {
				if v.Dir == other {
					record = filepath.Join(d.RunDir, "volumes", v.ID+".json")
				}
			}
			isRefusedWhile(d, l, record, later[0], later[1])
		})
	}
}

// What is damaged, no version can read. It must not keep the next one out.
func TestADamagedRecordDoesNotKeepANewVersionFromTakingOver(t *testing.T) {
	d := testnode.Install(t)
	l := readAll(t, d.Mount())
	d.Must("mount", t.TempDir(), testnode.WithOption("pod.name"))
	damaged := 0
	for _, v := range d.Status().Volumes {
		path := filepath.Join(d.RunDir, "volumes", v.ID+".json")
		before := testnode.Read(t, path)
		if after := strings.Replace(before, `"facts":["pod.name"]`, `"facts":"pod.name"`, 1); after != before {
			testnode.Write(t, path, after)
			damaged++
		}
	}
	if damaged != 1 {
		t.Fatalf("%d records are damaged", damaged)
	}
	d.ReplaceBinary(testnode.Newer)
	d.Must("init")
	if s := d.Status().Daemon; s.Active == nil || s.Active.Version != "1.2.4" || s.UpgradeError != "" {
		t.Errorf("%+v", s)
	}
	l.goesOn()
	l.stop()
}

// What the version that serves cannot read is no volume: the user hears why, and not of
// files that cannot be read.
func TestAVersionThatCouldNotTakeOverMountsNothingThatTheOtherCannotRead(t *testing.T) {
	for _, row := range []struct{ name, file, line string }{
		{"record", "survive/volume/record.go", "const Format = "},
		{"attributes", "fs/attributes.go", "const attributesFormat = "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			version := testnode.Build(t, "exits", "attack", builds.Edit{File: row.file, Old: row.line + "1", New: row.line + "2"})
			d := testnode.Install(t)
			l := readAtTimes(t, d.Mount())
			d.Pair()
			other, before := t.TempDir(), testnode.Names(t, d.RunDir+"/volumes")
			d.ReplaceBinary(version)
			d.Must("init")
			a := d.Call("mount", other, testnode.WithOption("pod.name"))
			if a.Status != "Failure" || !strings.Contains(a.Message, "version 1.2.3 serves and cannot read what version exits records") ||
				!strings.Contains(a.Message, "run pod-info-fuse upgrade") {
				t.Errorf("%+v", a)
			}
			if left := testnode.Names(t, d.RunDir+"/volumes"); !slices.Equal(left, before) {
				t.Errorf("records: %q, before: %q", left, before)
			}
			if volumes := d.Status().Volumes; len(volumes) != 1 || testnode.MountsOn(t, other) != 0 {
				t.Errorf("it leaves %+v, %d mounts", volumes, testnode.MountsOn(t, other))
			}
			l.goesOn()
			l.stop()
			d.ReplaceBinary(testnode.Binary)
		})
	}
}

// A call-out that is killed in the middle of an upgrade may leave the note of the version before.
func TestAVersionThatWasNotNotedIsReplaced(t *testing.T) {
	d := testnode.Install(t)
	l := readAtTimes(t, d.Mount())
	noted := testnode.Read(t, d.RunDir, "version")
	d.ReplaceBinary(testnode.Newer)
	d.Must("init")
	if err := os.Rename(filepath.Join(d.RunDir, "version"), filepath.Join(d.RunDir, ".new-version")); err != nil {
		t.Fatal(err)
	}
	testnode.Write(t, filepath.Join(d.RunDir, "version"), noted)
	d.ReplaceBinary(testnode.Binary)
	d.Must("init")
	if serves := d.Status().Daemon.Active.Version; serves != noted {
		t.Errorf("version %s serves, want %s", serves, noted)
	}
	l.stop()
}

// Where it cannot be noted what a process's cgroup is, nobody would find its children later.
func TestAnUpgradeWhoseCgroupCannotBeNotedFails(t *testing.T) {
	d := testnode.Install(t)
	l := readAtTimes(t, d.Mount())
	active, _ := d.Pair()
	note := filepath.Join(d.RunDir, "cgroup")
	before := testnode.Read(t, note)
	if err := os.Rename(note, note+".kept"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(note, "not empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.ReplaceBinary(testnode.Newer)
	if output, err := d.Command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "note the daemon's cgroup") {
		t.Errorf("upgrade: %v, %s", err, output)
	}
	if now, _ := d.Pair(); now != active {
		t.Errorf("process %d serves, want %d", now, active)
	}
	if err := os.RemoveAll(note); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(note+".kept", note); err != nil {
		t.Fatal(err)
	}
	if output, err := d.Command("upgrade").CombinedOutput(); err != nil {
		t.Errorf("upgrade: %v, %s", err, output)
	}
	if now := testnode.Read(t, note); now == before {
		t.Errorf("the note is still %q", now)
	}
	l.stop()
}

// systemd kills the kubelet's call-outs with it, and the next kubelet calls init at once.
func TestAnUpgradeWhoseCallOutWasKilledIsDoneByTheNext(t *testing.T) {
	d := testnode.Install(t)
	l := readAtTimes(t, d.Mount())
	for i := range 20 {
		path, version := testnode.Newer, "1.2.4"
		if i%2 == 1 {
			path, version = testnode.Binary, "1.2.3"
		}
		d.ReplaceBinary(path)
		killed := d.Command("init")
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 2 * time.Millisecond)
		_ = killed.Process.Kill()
		_ = killed.Wait()
		d.Must("init")
		if s := d.Status().Daemon; s.Active.Version != version || s.UpgradeError != "" {
			t.Fatalf("killed after %d ms: version %s serves, want %s: %s", 2*i, s.Active.Version, version, s.UpgradeError)
		}
	}
	l.stop()
}

// Another call-out replaces the daemon, which does not answer meanwhile: its control socket is made
// anew.
func TestWhatAnotherCallOutHasUpgradedIsNoFailedUpgrade(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	d.Pair()
	d.ReplaceBinary(testnode.Newer)
	lock, err := os.Open(filepath.Join(d.RunDir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil { // a mount has it, and then the other call-out
		t.Fatal(err)
	}
	control := filepath.Join(d.RunDir, "control")
	if err := os.Rename(control, control+"-away"); err != nil {
		t.Fatal(err)
	}
	opened := opens(t, lock.Name())
	upgrade := d.Command("upgrade")
	var output strings.Builder
	upgrade.Stdout, upgrade.Stderr = &output, &output
	if err := upgrade.Start(); err != nil {
		t.Fatal(err)
	}
	// It looks with the shared lock, asks without one, and then wants the exclusive one.
	testnode.Eventually(t, "it has asked", func() bool { return opened() >= 2 })
	if _, err := os.Stat(filepath.Join(d.RunDir, "upgrade-failed")); err == nil {
		t.Error("it has noted a failed upgrade while another call-out has the lock")
	}
	testnode.Write(t, filepath.Join(d.RunDir, "version"), "1.2.4")
	if err := os.Rename(control+"-away", control); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if err := upgrade.Wait(); err != nil {
		t.Errorf("upgrade: %v: %s", err, &output)
	}
	if s := d.Status().Daemon; s.UpgradeError != "" {
		t.Errorf("status says that the upgrade failed: %s", s.UpgradeError)
	}
}

// opens returns a function that counts how often a file was opened since.
func opens(t *testing.T, path string) func() int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err == nil {
		t.Cleanup(func() { unix.Close(fd) })
		_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_CLOSE) // without these, the kernel makes one of two opens
	}
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	return func() int {
		event := make([]byte, unix.SizeofInotifyEvent) // without a name: the file itself is watched
		for {
			if n, _ := unix.Read(fd, event); n != len(event) {
				return count
			}
			if (*unix.InotifyEvent)(unsafe.Pointer(unsafe.SliceData(event))).Mask&unix.IN_OPEN != 0 { // its mask, man 7 inotify
				count++
			}
		}
	}
}
