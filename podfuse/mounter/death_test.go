package mounter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/podfuse/wire"
)

// quiet fails if a program is said to be dead.
func (w *world) quiet(what string, d time.Duration) {
	w.t.Helper()
	for until := time.After(d); ; {
		select {
		case e := <-w.events:
			if e.Kind == wire.Died {
				w.t.Errorf("%s: it is taken for dead", what)
			}
		case <-until:
			return
		}
	}
}

// On a busy node, a launcher has the descriptor for a while beside its program, and is found. It is
// not taken for the program for long: the program's death would not be noticed.
func TestALauncherThatIsLateIsNotTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "CHECKS=1")
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Mode: "late", Text: "one"})
	program := c.programs("program")[0]
	w.status("the program is found", func(s Status) bool { return s.Volumes[0].PID == program })
	c.killProgram()
	w.died(generation)
}

// Neither the process that asked counts, nor the one that was started: whoever has the connection
// open does.
func TestWhoIsAlive(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "exit", "daemon", "exec"} {
		t.Run("mode "+mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.container(containerOptions{})
			generation := c.serve(launchOptions{Mode: mode, Text: "one"})
			if mode == "daemon" {
				eventually(t, "the program forks", func() bool { return len(c.programs("program")) == 1 }) // the first one ends
			}
			for _, pid := range c.programs("launcher") {
				if mode != "exec" {
					must(t, unix.Kill(pid, unix.SIGKILL))
				}
			}
			if mode != "exec" { // nsenter(1) would stop, too, and not wait for it
				stop(t, c.programs("program")...)
			}
			w.quiet("a program that was stopped", 1500*time.Millisecond)
			began := c.killProgram()
			if died := w.died(generation); len(died.files) != 1 || died.Since.Before(began) {
				t.Errorf("killed at %v: %+v", began, died)
			}
		})
	}
}

// Before Linux 6.9, what a program had not answered when it died gets ECONNABORTED, and its mounts
// go: who comes then waits for the next program. The pair is given nothing to read: a program that
// hides could have it wait.
func TestBeforeLinux69(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "NORESEND=1")
	c, other := w.container(containerOptions{}), w.container(containerOptions{Reads: true})
	one := c.serve(launchOptions{Text: "one", Mountpoint: "/m"})
	for _, in := range []*pod{c, other} {
		if problem := w.attach(one, in.pid); problem != "" {
			t.Fatal(problem)
		}
	}
	stop(t, c.programs("program")...)
	failed := make(chan error, 1)
	go func() {
		_, err := other.read("/data/another")
		failed <- err
	}()
	select {
	case err := <-failed:
		t.Fatalf("the reader does not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	c.killProgram()
	if died := w.died(one); len(died.files) != 0 {
		t.Errorf("it comes with its connection: %+v", died)
	}
	if err := <-failed; !errors.Is(err, unix.ECONNABORTED) {
		t.Errorf("the reader: %v", err)
	}
	for _, in := range []*pod{c, other} { // or who looks now would get an error, too
		if left := in.mounts("fuse"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
	two := c.serve(launchOptions{Text: "two", Mountpoint: "/m"})
	if problem := w.attach(two, other.pid); problem != "" {
		t.Fatal(problem)
	}
	if text, err := other.read("/data/text"); text != "two" {
		t.Errorf("%q, %v", text, err)
	}
	if status := w.now(); len(status.Volumes) != 1 || status.Volumes[0].Dead != 0 {
		t.Errorf("left: %+v", status)
	}
}

// A program that dies before it has answered leaves nothing, and keeps no other from serving.
func TestNeverServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	if answer := c.refused(0, launchOptions{Mountpoint: "/m"}); answer != "served" { // and it ends
		t.Fatal(answer)
	}
	c.serve(launchOptions{Text: "two", Mountpoint: "/m"})
	if mounts := c.mounts("fuse"); len(mounts) != 1 {
		t.Errorf("%q", mounts)
	}
	c.killProgram()
	w.event(wire.Died)
	must(t, w.client.Forget(w.data.ID()))

	c.launch(0, launchOptions{Silent: true, Mountpoint: "/m"})
	eventually(t, "there is a program", func() bool { return len(c.programs("program")) > 0 })
	w.quiet("a program that has not answered yet", 200*time.Millisecond)
	c.killProgram()
	c.launch(0, launchOptions{Text: "three"}) // before which its descriptor could be on its way still
	if died := w.event(wire.Died); len(died.files) != 0 {
		t.Errorf("it comes with its connection: %+v", died)
	}
	w.event(wire.ServedNow)
	if mounts := c.mounts("fuse"); len(mounts) != 0 {
		t.Errorf("left: %q", mounts)
	}
	if status := w.now(); len(status.Volumes) != 1 || status.Volumes[0].Dead != 0 {
		t.Errorf("left: %+v", status)
	}
}

func TestTwoPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one"})
	if answer := c.refused(0, launchOptions{}); !strings.Contains(answer, "another program serves") {
		t.Error(answer)
	}
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Error(problem)
	}
	if text, err := c.read("/data/text"); text != "one" {
		t.Errorf("%q, %v", text, err)
	}
}

// A program that hangs does not keep its readers, nor the kubelet, when the volume goes.
func TestForgetStopped(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	stop(t, c.programs("program")...)
	failed := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/data/another", c.pid))
		failed <- err
	}()
	select {
	case err := <-failed:
		t.Fatalf("the reader does not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	watch := stopwatch.Start()
	must(t, w.client.Forget(w.data.ID()))
	select {
	case err := <-failed:
		if !errors.Is(err, unix.ECONNABORTED) {
			t.Errorf("the reader: %v", err)
		}
	case <-time.After(hang):
		t.Error("the reader waits")
	}
	if took, late := watch.Stop(); took > time.Second { // as unmount promises, of which this is the driver's part
		t.Errorf("took %v, and the machine stood still for %v", took, late)
	}
}

// everyNameMain serves a file system of the container's own, with a directory of every name.
func everyNameMain(args []string) error {
	server, err := gofs.Mount(args[0], &everyName{}, &gofs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, AllowOther: true}})
	if err != nil {
		return err
	}
	fmt.Println("serves")
	server.Wait()
	return nil
}

// everyName has a file system on a directory of the container, in which every name is one, until it
// ends.
func (c *pod) everyName(dir string) (ends func()) {
	c.w.t.Helper()
	other := c.exec(0, "everyname", dir)
	said, err := other.StdoutPipe()
	must(c.w.t, err)
	must(c.w.t, other.Start())
	c.w.t.Cleanup(func() {
		c.kill()
		_ = other.Wait()
	})
	if _, err := said.Read(make([]byte, 10)); err != nil {
		c.w.t.Fatal(err)
	}
	return func() { _ = other.Process.Kill() } // nsenter(1), which stops as what it has started
}

// The programs of a volume had their own mounts on a file system of their container that does not
// answer any more. The volume goes all the same, and does not wait for that; and the mounter ends,
// after the time that one place may take.
func TestOwnMountsThatHang(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		goes func(w *world) error
		most time.Duration
	}{
		"unmount": {func(w *world) error { return w.client.Forget(w.data.ID()) }, detachTime / 2},
		"stop": {func(w *world) error {
			last := w.now()
			err := w.client.Stop()
			eventually(w.t, "the mounter has ended", func() bool { return unix.Kill(last.PID, 0) != nil })
			return err
		}, 2 * detachTime},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.container(containerOptions{})
			defer c.everyName("/mine")()
			for _, name := range []string{"one", "two", "three"} {
				generation := c.serve(launchOptions{Text: name, Mountpoint: "/mine/" + name})
				if text, err := c.read("/mine/" + name + "/text"); text != name {
					t.Errorf("%q, %v", text, err)
				}
				if name != "three" {
					c.killProgram()
					w.died(generation)
				}
			}
			stop(t, c.programs("everyname")...)
			watch := stopwatch.Start()
			must(t, row.goes(w))
			if took, late := watch.Stop(); took > row.most {
				t.Errorf("took %v, and the machine stood still for %v", took, late)
			}
		})
	}
}

// A program's own mount cannot be removed when the program dies, as there was no time for it. It is
// removed later: the program starts again, and sees its next mount.
func TestOwnMountThatIsRemovedLater(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct{ silent, killed bool }{
		"the program has served":              {},
		"the program had not answered yet":    {silent: true},
		"and the mounter is killed meanwhile": {killed: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.container(containerOptions{})
			defer c.everyName("/mine")()
			const own = "/mine/own"
			if row.silent {
				c.silent(own)
			} else {
				c.serve(launchOptions{Text: "one", Mountpoint: own})
			}
			dir := c.programs("everyname")
			stop(t, dir...)
			c.killProgram()
			next := func() { c.launch(0, launchOptions{Text: "two", Mountpoint: own}) }
			if row.silent { // or its descriptor could be on its way still
				next()
			}
			eventually(t, "the mount could not be removed", func() bool {
				text, err := os.ReadFile(filepath.Join(w.client.RunDir, "log"))
				must(t, err)
				return strings.Contains(string(text), "removal of the program's own mount")
			})
			if row.killed {
				before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
				must(t, unix.Kill(before.PID, unix.SIGKILL))
			}
			for _, pid := range dir {
				must(t, unix.Kill(pid, unix.SIGCONT))
			}
			if !row.silent {
				eventually(t, "the mount is removed", func() bool { return len(c.mounts("fuse")) == 1 }) // or a look at it waits
				next()
			}
			eventually(t, "the next program serves", func() bool {
				volumes := w.now().Volumes
				return len(volumes) == 1 && volumes[0].Served && len(c.programs("program")) == 1
			})
			if text, err := c.read(own + "/text"); text != "two" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// Wherever the mounter is killed, its spare goes on.
func TestKilled(t *testing.T) {
	t.Parallel()
	steps := []string{"begin and after", "order serve", "admit", "mount", "own", "send", "sent", "answer serve", "served",
		"order attach", "attach", "answer attach", "tell attached", "died", "told", "order hello"}
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			killed, variable := killsAt(t, step)
			w := newWorld(t, variable)
			c := w.container(containerOptions{Sub: "there"})
			before := w.now()
			if step == "begin and after" { // the kill of those that have just begun
				for range 3 {
					status := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
					must(t, unix.Kill(status.PID, unix.SIGKILL))
					w.status("another one", func(s Status) bool { return s.PID != status.PID })
				}
			}
			one := c.serve(launchOptions{Text: "one", Mountpoint: "/m"})
			if problem := w.attach(one, c.pid); problem != "" {
				t.Fatal(problem)
			}
			if text, err := c.read("/data/text"); text != "one" {
				t.Errorf("%q, %v", text, err)
			}
			if text, err := c.read("/m/text"); text != "one" {
				t.Errorf("%q, %v", text, err)
			}
			c.killProgram()
			if died := w.died(one); len(died.files) != 1 {
				t.Errorf("%+v", died)
			}
			two := c.serve(launchOptions{Text: "two", Mountpoint: "/m"})
			if problem := w.attach(two, c.pid); problem != "" {
				t.Fatal(problem)
			}
			for _, path := range []string{"/data/text", "/sub/text", "/m/text"} {
				if text, err := c.read(path); text != "two" {
					t.Errorf("%s: %q, %v", path, text, err)
				}
			}
			if mounts := c.mounts("fuse"); len(mounts) != 3 {
				t.Errorf("not three mounts of programs, but %q", mounts)
			}
			if step != "begin and after" && !<-killed {
				t.Error("nothing was killed")
			}
			after := w.now()
			if after.PID == before.PID && step != "order hello" || after.Identity != before.Identity || len(after.Volumes) != 1 {
				t.Errorf("before %+v, after %+v", before, after)
			}
		})
	}
}

// The spare is replaced when it dies, another version takes over with all that there is, one that
// hangs is killed, and when all are lost a new one begins.
func TestSpareAndVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	one := c.serve(launchOptions{Text: "one"})
	first := w.status("a spare", func(s Status) bool { return s.Spare != 0 })

	must(t, unix.Kill(first.Spare, unix.SIGKILL))
	w.status("another spare", func(s Status) bool { return s.Spare != 0 && s.Spare != first.Spare && s.PID == first.PID })

	newer := w.client
	newer.Version = "2.0"
	identity, err := newer.Ensure()
	if err != nil || identity != first.Identity {
		t.Errorf("identity %q before, %q after; %v", first.Identity, identity, err)
	}
	second := w.status("the other version, and a spare", func(s Status) bool { return s.Version == "2.0" && s.Spare != 0 })
	if problem := w.attach(one, c.pid); problem != "" {
		t.Error(problem)
	}

	stop(t, second.PID) // it hangs
	if identity, err := newer.Ensure(); err != nil || identity != first.Identity {
		t.Errorf("after a hang: %q, %v", identity, err)
	}
	third := w.status("the spare", func(s Status) bool { return s.PID != second.PID && s.Spare != 0 })
	c.killProgram()
	if died := w.died(one); len(died.files) != 1 {
		t.Errorf("%+v", died)
	}

	stop(t, third.Spare)
	must(t, unix.Kill(third.PID, unix.SIGKILL))
	must(t, unix.Kill(third.Spare, unix.SIGKILL))
	if identity, err := newer.Ensure(); err != nil || identity == first.Identity {
		t.Errorf("all lost: %q, %v", identity, err)
	}
	w.connect()
	c.serve(launchOptions{Text: "two"})
}

// The last report of a pair may come after the first one of the pair that serves in its place. The
// late report says nothing of who waits now.
func TestAPairThatWasReplacedDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counts := func(waiting int) { w.order(wire.Order{Kind: wire.Counts, Volume: w.data.ID(), Waiting: waiting}) }
	told := func() { w.answered(w.order(wire.Order{Kind: wire.Attach, Volume: w.data.ID()}), "attach") }
	counts(7)
	former := w.link
	w.connect()
	successor := w.link
	counts(0)
	told()
	w.link = former
	counts(5)
	told()
	w.link = successor
	if waiting := w.now().Volumes[0].Waiting; waiting != 0 {
		t.Errorf("%d wait, says the pair that was replaced", waiting)
	}
}

// A process of another version that does not read what it is given is killed, and the mounter goes
// on, with a spare. The next attempt succeeds.
func TestAVersionThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one"})
	before := w.now()
	dir := t.TempDir()
	newer := w.client
	newer.Version, newer.more = "2.0", []string{pausesIn(dir, "stand")}
	if _, err := newer.Ensure(); err == nil || !strings.Contains(err.Error(), "version 1.0 goes on") {
		t.Errorf("the upgrade: %v", err)
	}
	hung := pausedAt(dir, "stand")
	if hung == 0 {
		t.Fatal("no process of the other version was started")
	}
	eventually(t, "the process of the other version is killed", func() bool { return unix.Kill(hung, 0) != nil })
	w.status("the mounter, with a spare", func(s Status) bool { return s.PID == before.PID && s.Version == thisTest && s.Spare != 0 })
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Error(problem)
	}
	identity, err := newer.Ensure()
	if err != nil || identity != before.Identity {
		t.Errorf("identity %q before, %q after; %v", before.Identity, identity, err)
	}
	w.status("the other version", func(s Status) bool { return s.Version == "2.0" && s.Spare != 0 })
	if text, err := c.read("/data/text"); text != "one" {
		t.Errorf("%q, %v", text, err)
	}
}

// status waits for one.
func (w *world) status(what string, is func(Status) bool) (s Status) {
	w.t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < hang; time.Sleep(10 * time.Millisecond) {
		if s, err = w.client.Status(); err == nil && is(s) {
			return s
		}
	}
	w.t.Fatalf("no %s: %+v, %v", what, s, err)
	return s
}

// now is the status at once.
func (w *world) now() Status {
	w.t.Helper()
	return w.status("status", func(Status) bool { return true })
}

// A connection that was sent by a clock that has been set back since is looked for.
func TestTheClockWasSetBack(t *testing.T) {
	m := newMounter(&base{})
	c := &connection{gone: make(chan struct{}), hurry: make(chan struct{})}
	c.Sent = time.Now().Add(time.Hour).Round(0)
	go m.waitDead(c, c.Sent)
	select {
	case <-m.turns: // the first look's
	case <-time.After(hang):
		t.Error("nobody looks whether its program lives")
	}
}

// The processes of a pod are looked at for one connection at a time, or one order, and no other pod
// waits for that.
func TestOneLookOfAPodAtATime(t *testing.T) {
	// Of a pod whose processes cannot be listed as long as nobody writes: a FIFO is opened as soon
	// as somebody does.
	pod := func(uid string) (looked <-chan error, procs string) {
		group, ended := t.TempDir(), make(chan error, 1)
		procs = filepath.Join(group, "cgroup.procs")
		must(t, unix.Mkfifo(procs, 0o600))
		c := &connection{connectionMeta: connectionMeta{Pod: uid, Peer: identity{Group: group}}, gone: make(chan struct{})}
		go func() {
			_, err := c.look()
			ended <- err
		}()
		return ended, procs
	}
	isLooked := func(procs string) bool {
		fd, err := unix.Open(procs, unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err == nil
	}
	open := func(procs string) (release func()) {
		var file *os.File
		eventually(t, "the processes of the pod are looked at", func() bool {
			var err error
			file, err = os.OpenFile(procs, os.O_WRONLY|unix.O_NONBLOCK, 0)
			return err == nil
		})
		return func() { file.Close() }
	}
	// A signal can have the one who looks open the FIFO once more.
	ends := func(looked <-chan error, procs string) {
		for {
			select {
			case err := <-looked:
				must(t, err)
				return
			case <-time.After(time.Millisecond):
				isLooked(procs)
			}
		}
	}
	first, procs := pod("one")
	release := open(procs)
	second, waits := pod("one")
	namespaces := make(chan error, 1)
	go func() {
		_, err := cgroup{"one", filepath.Dir(waits)}.namespaces()
		namespaces <- err
	}()
	ends(pod("two"))
	if isLooked(waits) {
		t.Error("the processes of the pod are looked at for two connections")
	}
	release()
	ends(first, procs)
	ends(second, waits)
	ends(namespaces, waits)
}

// Where the kubelet makes no cgroups of pods, the removal of a dead program's own mount does not
// wait for other pods' turns either.
func TestALookForADeadProgramsMountIsItsPods(t *testing.T) {
	m := newMounter(&base{turns: make(chan func()), log: t.Logf})
	defer close(m.turns)
	go func() {
		for turn := range m.turns {
			turn()
		}
	}()
	defer looks.Take("")()
	removed := make(chan error, 1)
	go func() {
		removed <- m.detachOwn(&connection{connectionMeta: connectionMeta{Pod: "one", Mountpoint: "/m", Device: 1}})
	}()
	select {
	case err := <-removed:
		must(t, err)
	case <-time.After(10 * time.Second):
		t.Error("it waits for the look")
	}
}
