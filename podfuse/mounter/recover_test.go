package mounter

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/mounter/keep"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// loses kills the mounter and its spare, and starts another mounter.
func (w *world) loses() {
	w.t.Helper()
	before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	stop(w.t, before.Spare)
	must(w.t, unix.Kill(before.PID, unix.SIGKILL))
	must(w.t, unix.Kill(before.Spare, unix.SIGKILL))
	identity, err := w.client.Identity()
	if err != nil || identity != "" {
		w.t.Errorf("without a mounter, its identity is %q, %v", identity, err)
	}
	now, err := w.client.Ensure()
	must(w.t, err)
	if identity, err = w.client.Identity(); err != nil || identity != now || now == before.Identity {
		w.t.Errorf("before it is %q, and then %q, not %q, %v", before.Identity, identity, now, err)
	}
	w.connectAnew()
}

// connectAnew connects the pair to the next mounter. What the one before has told is forgotten.
func (w *world) connectAnew() {
	w.t.Helper()
	for len(w.events) > 0 {
		packet.Close((<-w.events).files)
	}
	w.connect()
}

// recovered waits until the next mounter has found the program of a generation.
func (w *world) recovered(generation uint64) {
	w.t.Helper()
	for w.event(wire.ServedNow).Generation != generation {
	}
}

// A mounter that begins with nothing finds a program that serves, and its death is like any other.
func TestProgramsOfALostMounter(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		o     launchOptions
		flags string
	}{
		"with a descriptor":             {flags: "rw,nosuid,nodev,noexec,relatime", o: launchOptions{Options: wire.Options{NoExec: true}}},
		"with a mount point of its own": {flags: "rw,nosuid,nodev,relatime", o: launchOptions{Mountpoint: "/m", User: 1000}},
		"in the background":             {flags: "ro,nosuid,nodev,relatime", o: launchOptions{Mountpoint: "/m", Mode: "daemon", Options: wire.Options{ReadOnly: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.container(containerOptions{})
			row.o.Text = "one"
			one := c.serve(row.o)
			if problem := w.attach(one, c.pid); problem != "" {
				t.Fatal(problem)
			}
			for range 2 {
				w.loses()
				w.recovered(one)
				if text, err := c.read("/data/text"); text != "one" {
					t.Errorf("%q, %v", text, err)
				}
			}
			later := w.container(containerOptions{Reads: true})
			if problem := w.attach(one, later.pid); problem != "" {
				t.Error(problem)
			}
			if found := later.mounts("fuse"); len(found) != 1 || !strings.Contains(found[0], " "+row.flags+" ") {
				t.Errorf("a later container has %q", found)
			}
			w.status("which program it is", func(s Status) bool {
				return len(s.Volumes) == 1 && !s.Volumes[0].Lost && s.Volumes[0].PID == c.programs("program")[0]
			})
			c.killProgram()
			if died := w.died(one); len(died.files) != 1 {
				t.Errorf("%+v", died)
			}
			if left := c.mounts("fuse"); len(left) != 1 || !strings.Contains(left[0], " /data ") {
				t.Errorf("after its death, the container has %q", left)
			}
			row.o.Text = "two"
			two := c.serve(row.o)
			if problem := w.attach(two, 0); problem != "" {
				t.Error(problem)
			}
			if text, err := c.read("/data/text"); text != "two" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// A program that has not answered before the mounter was lost serves when it does, and not before.
func TestAProgramOfALostMounterHasNotAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	program := c.silent("/m")
	before := w.now().Volumes[0].Generation
	w.loses()
	found := w.status("it is found", func(s Status) bool { return len(s.Volumes) == 1 && s.Volumes[0].PID == program })
	w.quiet("it has not answered", time.Second)
	if now := w.now().Volumes[0]; now.Served || found.Volumes[0].Served {
		t.Errorf("it is said to serve: %+v", now)
	}
	eventually(t, "it listens", func() bool {
		status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", program))
		must(t, err)
		caught, err := status.Mask("SigCgt")
		return err == nil && caught&(1<<(unix.SIGUSR1-1)) != 0
	})
	must(t, unix.Kill(program, unix.SIGUSR1))
	w.recovered(before)
	if problem := w.attach(before, c.pid); problem != "" {
		t.Error(problem)
	}
}

// A program is found by what the mounter before has attached, which had found it as well.
func TestProgramsOfAMounterThatWasLostTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, former := w.container(containerOptions{}), w.container(containerOptions{Reads: true})
	one := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(one, former.pid); problem != "" {
		t.Fatal(problem)
	}
	w.loses()
	w.recovered(one)
	reader := w.container(containerOptions{Reads: true})
	if problem := w.attach(one, reader.pid); problem != "" {
		t.Fatal(problem)
	}
	former.kill()
	w.loses()
	w.recovered(one)
	if text, err := reader.read("/data/text"); text != "one" {
		t.Errorf("%q, %v", text, err)
	}
	c.killProgram()
	if died := w.died(one); len(died.files) != 1 {
		t.Errorf("%+v", died)
	}
}

// As long as the node mount is not there, nobody knows what is a stand-in: the mounts of a program
// that has died are removed later.
func TestMountsOfALostMounterWithoutANodeMount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, other := w.container(containerOptions{}), w.container(containerOptions{Reads: true})
	one := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(one, other.pid); problem != "" {
		t.Fatal(problem)
	}
	back := w.withoutNodeMount()
	w.loseBoth()
	c.killProgram()
	eventually(t, "it has ended", func() bool { return len(c.programs("program")) == 0 })
	_, err := w.client.Ensure()
	must(t, err)
	w.connectAnew()
	status := w.now()
	back()
	if len(status.Volumes) != 1 || !status.Volumes[0].Lost {
		t.Errorf("without the node mount: %+v", status.Volumes)
	}
	eventually(t, "its mounts are removed", func() bool { return len(other.mounts("fuse")) == 0 })
}

// withoutNodeMount unmounts it, until it is mounted back.
func (w *world) withoutNodeMount() (back func()) {
	w.t.Helper()
	aside := w.t.TempDir()
	must(w.t, unix.Mount(w.client.FS(), aside, "", unix.MS_BIND, ""))
	must(w.t, unix.Unmount(w.client.FS(), unix.MNT_DETACH))
	return func() {
		w.t.Helper()
		must(w.t, errors.Join(unix.Mount(aside, w.client.FS(), "", unix.MS_BIND, ""), unix.Unmount(aside, unix.MNT_DETACH)))
	}
}

// A mounter that cannot read which programs there are, as for want of descriptors, reads it later.
func TestProgramsOfALostMounterThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	one := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(one, c.pid); problem != "" {
		t.Fatal(problem)
	}
	notes := w.client.Connections()
	aside := notes + ".aside"
	must(t, os.Rename(notes, aside))
	must(t, os.WriteFile(notes, nil, 0o600))
	w.loses()
	must(t, os.Remove(notes))
	must(t, os.Rename(aside, notes))
	w.recovered(one)
	c.killProgram()
	if died := w.died(one); len(died.files) != 1 {
		t.Errorf("%+v", died)
	}
}

// A file of which a mounter has written a part, or that is none of its own, tells of no program.
func TestNotesThatAreNone(t *testing.T) {
	m := newMounter(&base{set: keep.New(), log: t.Logf})
	m.RunDir = t.TempDir()
	must(t, os.Mkdir(m.Connections(), 0o700))
	meta := connectionMeta{Volume: 7, Generation: 1}
	whole, err := json.Marshal(meta)
	must(t, err)
	for name, text := range map[string][]byte{"empty": nil, "garbage": []byte("x"), meta.dir() + ".new": whole, "another": whole} {
		must(t, os.WriteFile(filepath.Join(m.Connections(), name), text, 0o600))
	}
	if !m.loadLost() || len(m.volumes) != 0 {
		t.Errorf("it knows %v", m.volumes)
	}
	if left, err := os.ReadDir(m.Connections()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A program that is found when another one serves by now is not put in the place of that.
func TestAProgramThatIsFoundTooLate(t *testing.T) {
	m := newMounter(&base{set: keep.New(), log: t.Logf})
	defer m.takesTurns()()
	found, other, err := os.Pipe()
	must(t, err)
	defer other.Close()
	var lost, living *connection
	m.do(func() {
		lost = m.addConnection(connectionMeta{Volume: 7, Generation: 1}, nil)
		living = m.addConnection(connectionMeta{Volume: 7, Generation: 2}, other)
	})
	if err := m.resume(lost, found); !errors.Is(err, errBusy) {
		t.Errorf("%v", err)
	}
	if now := m.volumes[7]; now == nil || now.living != living || len(now.lost()) != 1 {
		t.Errorf("%+v", now)
	}
	if _, err := found.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("what was found stays open: %v", err)
	}
}

// A mounter that is killed while it looks leaves that to its spare.
func TestKilledWhileItLooksForPrograms(t *testing.T) {
	t.Parallel()
	killed, variable := killsAt(t, "recover")
	w := newWorld(t, variable)
	c := w.container(containerOptions{})
	one := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(one, c.pid); problem != "" {
		t.Fatal(problem)
	}
	w.loses()
	if !<-killed {
		t.Fatal("no mounter was killed")
	}
	w.recovered(one)
	c.killProgram()
	if died := w.died(one); len(died.files) != 1 {
		t.Errorf("%+v", died)
	}
}

// A pod has one turn in a recovery, however many of its volumes have others at work on them.
func TestAPodHasOneTurnInARecovery(t *testing.T) {
	t.Parallel()
	const other = volume.ID(1)
	looked := make(chan struct{}, 1000)
	m := newMounter(&base{set: keep.New(), log: func(format string, args ...any) {
		if strings.HasPrefix(fmt.Sprintf(format, args...), "recovery of volume "+other.String()+":") { // there is no vault
			looked <- struct{}{}
		}
	}})
	go func() { // without an end, as what is looked for
		for turn := range m.turns {
			turn()
		}
	}()
	m.do(func() {
		for id := range volume.ID(cap(looked)) {
			meta := connectionMeta{Volume: id, Generation: 1, Device: 1, Pod: "another"}
			if id != other {
				meta.Pod = "one"
				m.client(id).busy <- struct{}{}
			}
			m.addConnection(meta, nil)
		}
	})
	go m.recoverAll(true)
	select {
	case <-looked:
	case <-time.After(2 * orderTime):
		t.Error("the other pod has no turn")
	}
}

// A pod offers connections of others, and none at all, beside its program's, and a process of it
// hangs when it is asked.
func TestWhatALostMounterDidNotGive(t *testing.T) {
	t.Parallel()
	f := slowclose.Mount(t)
	w := newWorld(t)
	c := w.container(containerOptions{Slow: f.Dir})
	defer f.Answer() // or the container does not end
	c.hangInExecve(f)
	one := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(one, c.pid); problem != "" {
		t.Fatal(problem)
	}
	other, path := w.otherConnection()
	unused, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	must(t, err)
	decoy := c.exec(0, "sleeper")
	decoy.ExtraFiles = []*os.File{unused, other}
	must(t, decoy.Start())
	packet.Close(decoy.ExtraFiles)
	eventually(t, "the decoy is there", func() bool { return len(c.programs("sleeper")) == 1 })
	w.loses()
	w.recovered(one)
	f.Answer()
	for _, pid := range c.programs("sleeper") {
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
	_ = decoy.Wait()
	var stat unix.Statfs_t
	eventually(t, "nobody has the other connection any more", func() bool { return unix.Statfs(path, &stat) == unix.ENOTCONN })
	c.killProgram()
	if died := w.died(one); len(died.files) != 1 {
		t.Errorf("%+v", died)
	}
}

// otherConnection is one that the mounter has nothing to do with, with a mount that nobody serves.
func (w *world) otherConnection() (device *os.File, path string) {
	w.t.Helper()
	path = w.t.TempDir()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(w.t, err)
	must(w.t, unix.Mount("other", path, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)))
	w.t.Cleanup(func() { must(w.t, unix.Unmount(path, unix.MNT_DETACH|unix.MNT_FORCE)) })
	return os.NewFile(uintptr(fd), "/dev/fuse"), path
}

// Mounts of programs that have died without a mounter are removed: not before their connections
// have ended, and that of one that was dead before ends with the pair's. Nobody says meanwhile that
// the volume is served.
func TestMountsOfProgramsThatDiedWithoutAMounter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one", Mountpoint: "/m"})
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	c.killProgram()
	died := w.died(generation)
	if len(died.files) != 1 {
		t.Fatalf("%+v", died)
	}
	w.loses()
	w.status("nothing is known of the volume", func(s Status) bool { return len(s.Volumes) == 1 && s.Volumes[0].Lost && !s.Volumes[0].Served })
	if left := c.mounts("fuse"); len(left) != 1 {
		t.Errorf("the container has %q", left)
	}
	packet.Close(died.files)
	w.status("all is known", func(s Status) bool { return len(s.Volumes) == 0 })
	if left := c.mounts("fuse"); len(left) != 0 {
		t.Errorf("the container has %q", left)
	}
	two := c.serve(launchOptions{Text: "two", Mountpoint: "/m"})
	if problem := w.attach(two, c.pid); problem != "" {
		t.Fatal(problem)
	}
	if text, err := c.read("/data/text"); text != "two" {
		t.Errorf("%q, %v", text, err)
	}
}

// A /dev/fuse on which nothing is mounted yet stays so: who has just opened it can mount it.
func TestALookAtADeviceMountsNothing(t *testing.T) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	if device, err := deviceOfConnection(fd); err == nil {
		t.Errorf("it is said to serve device %#x", device)
	}
	dir := t.TempDir()
	must(t, unix.Mount("test", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)))
	defer func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	point, err := mount.Open(dir)
	must(t, err)
	defer point.Close()
	if device, err := deviceOfConnection(fd); err != nil || device != point.Device() {
		t.Errorf("it serves device %#x: %#x, %v", point.Device(), device, err)
	}
}
