package survive_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/testnode"
)

// load reads a volume in every way that a pod does, until stop is called, which
// checks that no reader saw an error or hangs.
type load struct {
	t       *testing.T
	pause   time.Duration // of each reader after a read
	readers sync.WaitGroup
	ended   atomic.Bool
	reads   atomic.Int64
}

func readAll(t *testing.T, dir string) *load { return readEvery(t, dir, 0) }

// readAtTimes leaves the CPUs to others, in a test that takes long.
func readAtTimes(t *testing.T, dir string) *load { return readEvery(t, dir, 10*time.Millisecond) }

func readEvery(t *testing.T, dir string, pause time.Duration) *load {
	t.Helper()
	l := &load{t: t, pause: pause}
	held, err := os.Open(filepath.Join(dir, "pod"))
	if err != nil {
		t.Fatal(err)
	}
	self := fmt.Sprintln(os.Getpid())
	l.start(func() error {
		buffer := make([]byte, 32)
		n, err := held.ReadAt(buffer, 0)
		if string(buffer[:n]) != self {
			return fmt.Errorf("the open file reads %q: %w", buffer[:n], err)
		}
		return nil
	})
	l.start(func() error {
		entries, err := os.ReadDir(dir)
		if err == nil && len(entries) != 4 {
			err = fmt.Errorf("the volume lists %v", entries)
		}
		return err
	})
	for name, want := range map[string]string{"pod.uid": testnode.PodUID + "\n", "pid": self, "pod": self} {
		l.start(func() error {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil && string(data) != want {
				err = fmt.Errorf("%s reads %q, want %q", name, data, want)
			}
			return err
		})
	}
	t.Cleanup(func() { held.Close() })
	return l
}

func (l *load) start(read func() error) {
	l.readers.Go(func() {
		for !l.ended.Load() {
			if err := read(); err != nil {
				l.t.Errorf("a reader sees an error: %v", err)
				return
			}
			l.reads.Add(1)
			time.Sleep(l.pause)
		}
	})
}

// goesOn waits until there has been some more reading.
func (l *load) goesOn() {
	l.t.Helper()
	before := l.reads.Load()
	testnode.Eventually(l.t, "readers go on", func() bool { return l.reads.Load() > before+100 || l.t.Failed() })
}

func (l *load) stop() {
	l.t.Helper()
	l.goesOn()
	l.ended.Store(true)
	done := make(chan struct{})
	go func() { l.readers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(testnode.Forever):
		l.t.Fatal("a reader hangs")
	}
}

func TestReadersDoNotNoticeThatProcessesDie(t *testing.T) {
	d := testnode.Install(t)
	l := readAll(t, d.Mount())
	takeovers := 0
	for i := range 12 {
		active, standby := d.Pair()
		victim := standby
		if i%3 != 0 {
			victim = active
			takeovers++
		}
		testnode.Kill(t, victim)
		l.goesOn()
	}
	l.stop()
	active, standby := d.Pair()
	if s := d.Status().Daemon; s.Takeovers != takeovers || s.LastTakeover.Cause != "crash" {
		t.Errorf("status: %+v, want %d take-overs", s, takeovers)
	}
	testnode.Eventually(t, "there are just two processes", func() bool { return len(testnode.DaemonsOf(d)) == 2 })
	// It closes a connection of status when it has read that its client has gone.
	testnode.Eventually(t, "no descriptors are leaked", func() bool { return descriptorsOf(t, active) <= 16 && descriptorsOf(t, standby) <= 16 })
}

func descriptorsOf(t *testing.T, pid int) int {
	t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestAHungProcessIsReplaced(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	l := readAtTimes(t, dir)
	active, _ := d.Pair()
	watch := stopwatch.Start()
	testnode.Suspend(t, active)
	if got := testnode.Read(t, dir, "pod.nodename"); got == "" { // waits until somebody answers
		t.Error("pod.nodename is empty")
	}
	isBack(t, watch)
	l.stop()
	if s := d.Status().Daemon; s.LastTakeover.Cause != "hang" || testnode.Alive(active) {
		t.Errorf("status: %+v; the hung process lives: %v", s, testnode.Alive(active))
	}
}

func TestAHungStandbyIsReplaced(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	_, standby := d.Pair()
	testnode.Suspend(t, standby)
	testnode.Eventually(t, "it is gone", func() bool { return !testnode.Alive(standby) })
	d.Pair()
}

// A series of deaths delays the next standby, but by two seconds at most: without one, the
// next crash would be an error for readers. One that has lived for a second ends the series: a
// machine must see it earlier to try the longest delay.
func TestThereIsAStandbySoonHoweverManyHaveDied(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	for i := range 12 {
		_, standby := d.Pair()
		watch := stopwatch.Start()
		testnode.Kill(t, standby)
		testnode.Eventually(t, "the next one begins", func() bool { return len(testnode.DaemonsOf(d)) == 2 })
		took, late := watch.Stop()
		t.Logf("death %d: the next one began after %v, and %v in which the machine was late", i+1, took, late)
		if took > 3*time.Second {
			t.Errorf("death %d: the next one began after %v", i+1, took)
		}
	}
	d.Pair()
}

func TestSIGTERMHandsOver(t *testing.T) {
	d := testnode.Install(t)
	l := readAll(t, d.Mount())
	for range 5 {
		active, standby := d.Pair()
		if err := unix.Kill(active, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		testnode.Eventually(t, "the active process is gone", func() bool { return !testnode.Alive(active) })
		if now := d.Daemon(); now != standby {
			t.Errorf("active is %d, want the standby %d", now, standby)
		}
	}
	if s := d.Status().Daemon; s.LastTakeover.Cause != "planned" || s.Takeovers != 5 {
		t.Errorf("status: %+v", s)
	}
	// Without a standby, it waits for one.
	active, standby := d.Pair()
	testnode.Kill(t, standby)
	if err := unix.Kill(active, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testnode.Eventually(t, "the active process is gone", func() bool { return !testnode.Alive(active) })
	l.stop()
}

func TestUpgradeAndDowngrade(t *testing.T) {
	d := testnode.Install(t)
	l := readAll(t, d.Mount())
	for i := range 6 {
		path, version := testnode.Newer, "1.2.4"
		if i%2 == 1 {
			path, version = testnode.Binary, "1.2.3"
		}
		active, standby := d.Pair()
		d.ReplaceBinary(path)
		if i < 4 {
			d.Must("init")
		} else if output, err := d.Command("upgrade").CombinedOutput(); err != nil || !strings.Contains(string(output), version) {
			t.Errorf("upgrade: %v: %s", err, output)
		}
		newActive, newStandby := d.Pair()
		s := d.Status()
		if s.Daemon.Active.Version != version || s.Daemon.Standby.Version != version || s.Daemon.LastTakeover.Cause != "planned" {
			t.Errorf("upgrade %d: %+v", i, s.Daemon)
		}
		if newActive == active || newStandby == standby {
			t.Errorf("upgrade %d: a process is still the old one", i)
		}
		testnode.Eventually(t, "the old processes are gone", func() bool { return !testnode.Alive(active) && !testnode.Alive(standby) })
		l.goesOn()
	}
	l.stop()
}

// A call-out needs capabilities over mounts and processes, and none over the network.
func TestUpgradeWithoutCapabilitiesOverTheNetwork(t *testing.T) {
	d := testnode.Install(t)
	l := readAtTimes(t, d.Mount())
	d.Pair()
	d.ReplaceBinary(testnode.Newer)
	output, err := d.Execute([]string{"setpriv", "--bounding-set", "-net_admin", d.Path, "upgrade"}).CombinedOutput()
	if err != nil {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	if s := d.Status(); s.Daemon.Active.Version != "1.2.4" {
		t.Errorf("version %s serves", s.Daemon.Active.Version)
	}
	l.stop()
}

func TestABrokenNewVersionChangesNothing(t *testing.T) {
	for _, row := range []struct{ version, problem string }{
		{"exits", "died before it was ready"},
		{"hangs", "was not ready in time"},
	} {
		t.Run(row.version, func(t *testing.T) {
			t.Parallel() // one waits for ten seconds
			d := testnode.Install(t)
			l := readAtTimes(t, d.Mount())
			active, standby := d.Pair()
			good := filepath.Join(t.TempDir(), "good")
			if err := os.Link(d.Path, good); err != nil {
				t.Fatal(err)
			}
			d.ReplaceBinary(testnode.Build(t, row.version, "attack"))
			output, err := d.Command("upgrade").CombinedOutput()
			if err == nil || !strings.Contains(string(output), row.problem) {
				t.Errorf("upgrade: %v: %s", err, output)
			}
			if s := d.Status().Daemon; !strings.Contains(s.UpgradeError, row.problem) || s.Active.Version != "1.2.3" {
				t.Errorf("status: %+v", s)
			}
			if a, s := d.Pair(); a != active || s != standby {
				t.Errorf("processes %d and %d became %d and %d", active, standby, a, s)
			}
			d.Must("init") // answers, whatever becomes of the upgrade
			l.goesOn()
			// A standby of the old version can still be started, and take over.
			testnode.Kill(t, active)
			l.stop()
			d.Pair()
			d.ReplaceBinary(good)
		})
	}
}

func TestABinaryThatCannotRunChangesNothing(t *testing.T) {
	d := testnode.Install(t)
	l := readAtTimes(t, d.Mount())
	active, standby := d.Pair()
	good := filepath.Join(t.TempDir(), "good")
	if err := os.Link(d.Path, good); err != nil {
		t.Fatal(err)
	}
	d.ReplaceBinary(forAnotherMachine(t))
	if output, err := d.Command("init").CombinedOutput(); !errors.Is(err, unix.ENOEXEC) {
		t.Errorf("it runs here: %v: %s", err, output)
	}
	if a, s := active, standby; !testnode.Alive(a) || !testnode.Alive(s) {
		t.Errorf("processes %d and %d: %v, %v", a, s, testnode.Alive(a), testnode.Alive(s))
	}
	l.goesOn()
	d.ReplaceBinary(good)
	testnode.Kill(t, active)
	l.stop()
}

// forAnotherMachine returns a binary whose header names an architecture that is not ours.
func forAnotherMachine(t *testing.T) string {
	t.Helper()
	path := testnode.CopyOf(t, testnode.Binary)
	if err := testnode.Poke(path, machineInELF); err != nil {
		t.Fatal(err)
	}
	return path
}

// machineInELF is where e_machine is in the header of a program (man 5 elf).
const machineInELF = 18

func TestInitOfTheSameVersionChangesNothing(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	active, standby := d.Pair()
	d.Must("init")
	if a, s := d.Pair(); a != active || s != standby {
		t.Errorf("processes %d and %d became %d and %d", active, standby, a, s)
	}
}

// What is left of a volume when both processes die: the kubelet's directory, a
// container with the volume, and a subPath in a container, all of them dead.
func TestTotalLossIsHealedByTheNextInit(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	container := startContainer(t, dir)
	if got := container.read("volume/pod.uid"); got != testnode.PodUID {
		t.Fatalf("in the container, at first: %q", got)
	}
	d.KillPair()
	if got := container.read("volume/pod.uid"); got != "" {
		t.Fatalf("the container's volume is not dead: %q", got)
	}
	d.Must("init")
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("the kubelet's directory: %q", got)
	}
	for _, path := range []string{"volume/pod.uid", "subpath"} {
		if got := container.read(path); got != testnode.PodUID {
			t.Errorf("%s in the container: %q", path, got)
		}
	}
	if s := d.Status(); s.Mount.State != "ok" || s.Volumes[0].State != "ok" {
		t.Errorf("status: %+v", s)
	}
	container.ends()
	d.Must("unmount", dir)
	testnode.Gone(t, d, dir)
}

// A mount in the place of a dead one leaves the kubelet's directory bare at no moment: a reader
// finds what is dead, or what lives, and never the directory below.
func TestAMountInThePlaceOfADeadOneLeavesTheDirectoryNeverBare(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	stop, ended, bare := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := os.Lstat(dir + "/pod.uid"); errors.Is(err, os.ErrNotExist) {
					bare++
				}
			}
		}
	}()
	for range 10 {
		d.KillPair()
		d.Must("mount", dir, testnode.GoodOptions)
		if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
			t.Errorf("the kubelet's directory: %q", got)
		}
	}
	close(stop)
	<-ended
	if bare > 0 {
		t.Errorf("the directory was bare at %d looks", bare)
	}
}

func TestRestoreSaysWhatItDid(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	container := startContainer(t, dir)
	if output, err := d.Command("restore").Output(); err != nil || string(output) != "nothing was dead\n" {
		t.Errorf("restore with nothing to do: %v: %s", err, output)
	}
	d.KillPair()
	output, err := d.Command("restore").CombinedOutput()
	for _, want := range []string{
		"healed: " + dir + ", pod shop/web-0\n",
		fmt.Sprintf("healed: /volume in the container of process %d (", container.PID),
		fmt.Sprintf("healed: /subpath in the container of process %d (", container.PID),
	} {
		if err != nil || !strings.Contains(string(output), want) {
			t.Errorf("restore: %v:\n%swant %s", err, output, want)
		}
	}
	if got := container.read("volume/pod.uid"); got != testnode.PodUID {
		t.Errorf("in the container: %q", got)
	}
	d.KillPair()
	output, err = d.Command("restore", "-o", "json").Output()
	type report struct {
		Path                   string
		PID                    int
		PodUID, PodName, Error string
	}
	var got []report
	if jsonErr := json.Unmarshal(output, &got); err != nil || jsonErr != nil {
		t.Fatalf("restore -o json: %v, %v: %s", err, jsonErr, output)
	}
	for _, want := range []report{{dir, 0, testnode.PodUID, "web-0", ""}, {"/volume", container.PID, testnode.PodUID, "web-0", ""}} {
		if !slices.Contains(got, want) {
			t.Errorf("restore -o json: %swant %+v", output, want)
		}
	}
}

// The standby hangs, and the active process dies before it has noticed.
func TestAPairThatHangsAndDiesIsHealed(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	active, standby := d.Pair()
	testnode.Suspend(t, standby)
	testnode.Kill(t, active)
	d.Must("init")
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	if testnode.Alive(standby) {
		t.Error("the standby that hangs is still there")
	}
}
