package standin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/podfuse/wire"
)

// In these tests, the mounts, the readers and the programs are real. The test plays the mounter.

func TestReadersWaitForTheFirstProgram(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.container("")
	at := c.paths[0]
	var all []*process
	for _, what := range [][]string{
		{"cat", at + "/x"}, {"stat", at}, {"stat", at + "/dir/y"}, {"statfs", at}, {"chdir", at}, {"access", at}, {"mkdir", at + "/new"}, {"list", at},
	} {
		all = append(all, c.do(what[0], what[1:]...))
	}
	for _, p := range all {
		p.isHeld()
	}
	p := r.program(map[string]string{"x": "content", "dir/y": ""})
	p.serves()
	for i, want := range []string{"content", "", "", "", "", "", "", "dir new x"} {
		if all[i].cmd.Env[0] == role+"=list" {
			continue // it may be before or after mkdir
		}
		all[i].prints(want)
	}
	c.do("cat", at+"/x").prints("content")
	r.container("").do("cat", r.containers[1].paths[0]+"/x").prints("content")
}

// The kubelet, df and find look at what they like while a container's process waits.
func TestTheHostNeverWaits(t *testing.T) {
	t.Run("on a path without links", func(t *testing.T) { theHostNeverWaits(t, newRig(t, time.Hour)) })
	t.Run("over a link", func(t *testing.T) { theHostNeverWaits(t, newRigOn(t, disk, time.Hour)) })
}

func theHostNeverWaits(t *testing.T, r *rig) {
	c := r.container("")
	waiter := c.do("stat", c.paths[0])
	waiter.isHeld()
	done := make(chan error, 1)
	go func() {
		dir := r.record.Dir
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if path != dir && err == nil {
				err = fmt.Errorf("there is %s", path)
			}
			return err
		})
		if err == nil {
			err = again(func() error { return unix.Statfs(dir, new(unix.Statfs_t)) })
		}
		for _, path := range []string{dir, dir + "/any", dir + "/any/name", r.layout.FS()} {
			var stat unix.Stat_t
			if err == nil {
				err = again(func() error { return unix.Stat(path, &stat) })
			}
			if err == nil && stat.Mode&unix.S_IFMT != unix.S_IFDIR {
				err = fmt.Errorf("%s is no directory", path)
			}
		}
		if err == nil {
			_, err = os.ReadDir(dir + "/any/name")
		}
		if mkdir := os.Mkdir(dir+"/any", 0o700); err == nil && !os.IsExist(mkdir) {
			err = mkdir
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Fatal("the host waits")
	}
	waiter.waits()
}

// A container that has the kubelet's directories below a path of its own, as node agents do, never
// waits.
func TestACopyOfTheHostsMountsNeverWaits(t *testing.T) {
	for _, kubelets := range []string{"kubelet/pods", disk} {
		t.Run(kubelets, func(t *testing.T) {
			r := newRigOn(t, kubelets, time.Hour)
			waiter := r.container("").do("stat", r.containers[0].paths[0])
			waiter.isHeld()
			agent := &container{rig: r}
			agent.start([]string{filepath.Join(r.dir, kubelets), r.mkdir("agent")})
			at := filepath.Join(r.dir, "agent", podUID, "volumes/example.com~pod-fuse/data")
			for _, what := range []string{"stat", "statfs", "list", "chdir"} {
				agent.do(what, at).prints("")
			}
			waiter.waits()
		})
	}
}

func TestAWaiterCanBeKilled(t *testing.T) {
	r := newRig(t, time.Hour)
	c := r.container("")
	for _, what := range []string{"stat", "statfs", "list", "chdir"} {
		p := c.do(what, c.paths[0])
		p.isHeld()
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.prints("")
	}
}

func TestWaitingHasAnEnd(t *testing.T) {
	r := newRig(t, time.Second)
	c := r.container("")
	begun := time.Now()
	c.do("stat", c.paths[0]).prints("ENOTCONN")
	if took := time.Since(begun); took < time.Second {
		t.Errorf("it waited for %v", took)
	}
	c.do("stat", c.paths[0]).prints("ENOTCONN")
	r.program(map[string]string{"x": "content"}).serves()
	r.ask(t, `{"format":1,"kind":"ready"}`, `{"format":1,"state":"served"}`)
	c.do("cat", c.paths[0]+"/x").prints("content")
}

func TestSubPaths(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.container("dir/sub", "", "other")
	p := c.do("cat", c.paths[0]+"/x")
	p.isHeld()
	r.program(map[string]string{"dir/sub/x": "below", "other/x": "other"}).serves()
	p.prints("below")
	c.do("cat", c.paths[1]+"/dir/sub/x").prints("below")
	c.do("cat", c.paths[2]+"/x").prints("other")
}

// What would change the volume's directory itself has a lock of the kernel's, which a mount needs.
func TestNothingIsHeldThatKeepsAMountOut(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.container("")
	c.do("chmod", c.paths[0]).prints("EROFS")
	p := c.do("mkdir", c.paths[0]+"/new")
	p.isHeld()
	r.program(nil).serves()
	p.prints("")
}

func TestAProgramDiesUnderReaders(t *testing.T) {
	r := newRig(t, time.Minute)
	c, other := r.container(""), r.container("dir")
	one := r.program(map[string]string{"x": "first", "dir/y": "first"})
	one.serves()
	c.do("cat", c.paths[0]+"/x").prints("first")
	other.do("cat", other.paths[0]+"/y").prints("first")
	keeps := c.do("keep", c.paths[0]+"/x")
	keeps.reads("open")
	keeps.reads("ok")

	one.dies()
	r.ask(t, `{"format":1,"kind":"ready"}`, `{"format":1,"state":"program dead"}`)
	keeps.reads("ESTALE")
	waiting := []*process{c.do("cat", c.paths[0]+"/x"), c.do("stat", c.paths[0]+"/x"), c.do("list", c.paths[0]), other.do("cat", other.paths[0]+"/y")}
	killed := c.do("cat", c.paths[0]+"/x")
	for _, p := range waiting {
		p.isHeld()
	}
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.prints("")

	two := r.program(map[string]string{"x": "second", "dir/y": "second"})
	two.serves()
	for i, want := range []string{"second", "", "dir x", "second"} {
		waiting[i].prints(want)
	}
	c.do("cat", c.paths[0]+"/x").prints("second")
	keeps.reads("ESTALE")
	// The last one to use the first program's mount ends its connection.
	if err := keeps.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.must(unix.Unmount(one.vault, unix.MNT_DETACH))
	if order, _ := r.ordered(wire.Spent); order.Volume != r.record.ID() || order.Generation != 1 {
		t.Errorf("%+v", order)
	}
}

// A request that the program had read when it died is not lost.
func TestWhatADeadProgramHadReadIsAnswered(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.container("")
	one := r.program(map[string]string{"x": "first"})
	one.serves()
	c.do("cat", c.paths[0]+"/x").prints("first")
	// A program that is stopped reads nothing, but a test can in its place.
	one.stops()
	waiting := c.do("stat", c.paths[0]+"/x")
	device := int(one.device.Fd())
	r.must(unix.SetNonblock(device, true))
	r.eventually("the request is read", func() bool {
		request := make([]byte, 1<<21)
		_, err := unix.Read(device, request)
		return err == nil && devfuse.Waits(devfuse.Header(request).Opcode)
	})
	one.dies()
	waiting.isHeld()
	later := c.do("stat", c.paths[0]+"/x")
	later.isHeld()
	r.program(map[string]string{"x": "second"}).serves()
	waiting.prints("")
	later.prints("")
}

// The program's own container must not wait for the program: it may have to start it.
func TestTheProgramsOwnContainerDoesNotWait(t *testing.T) {
	r := newRig(t, time.Minute)
	one := r.program(map[string]string{"x": "first"})
	own := r.serverContainer(one.vault, r.mkdir("own"))
	at := filepath.Join(r.dir, "own")
	own.do("cat", at+"/x").prints("first")
	one.serves()
	one.stops()
	waiting := own.do("stat", at+"/x")
	waiting.waits()
	one.dies()
	waiting.prints("ESTALE")
	own.do("stat", at).prints("ESTALE")
}

// A program that hides its descriptor, and has its readers' requests queued again without an end,
// keeps the pair from nobody else: its connection is ended.
func TestADeadProgramThatResendsIsEnded(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.container("")
	one := r.program(map[string]string{"x": "first"})
	one.serves()
	c.do("cat", c.paths[0]+"/x").prints("first")
	one.dies()
	waiting := c.do("cat", c.paths[0]+"/x")
	waiting.isHeld()
	end, ended := make(chan bool), make(chan bool)
	hidden, err := unix.FcntlInt(one.device.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	r.must(err)
	go func() {
		defer close(ended)
		defer unix.Close(hidden)
		for {
			select {
			case <-end:
				return
			default:
				_ = devfuse.Resend(hidden)
			}
		}
	}()
	defer func() { close(end); <-ended }()
	if spent, _ := r.ordered(wire.Spent); spent.Generation != one.generation {
		t.Errorf("the connection of generation %d is ended", spent.Generation)
	}
	r.must(unix.Unmount(one.vault, unix.MNT_FORCE|unix.MNT_DETACH)) // as the mounter does then
	waiting.prints("ENOTCONN")
}

func (r *rig) mkdir(name string) string {
	path := filepath.Join(r.dir, name)
	r.must(os.MkdirAll(path, 0o755))
	return path
}

// Another process of the pair goes on where one has stopped.
func TestWhoWaitsGoesOnWaitingForAnotherProcess(t *testing.T) {
	r := newRig(t, time.Minute)
	c, fresh := r.container(""), r.container("")
	one := r.program(map[string]string{"x": "first"})
	r.mu.Lock()
	r.replay = one.tellDeath
	r.mu.Unlock()
	one.serves()
	c.do("cat", c.paths[0]+"/x").prints("first")
	one.dies()
	onDead, onStandin := c.do("cat", c.paths[0]+"/x"), fresh.do("cat", fresh.paths[0]+"/x")
	for range 3 {
		onDead.isHeld()
		onStandin.isHeld()
		r.stop()
		r.serve()
	}
	onDead.isHeld()
	r.program(map[string]string{"x": "second"}).serves()
	onDead.prints("second")
	onStandin.prints("second")
}

// A volume that is unmounted lets everybody go.
func TestAVolumeIsForgotten(t *testing.T) {
	r := newRig(t, time.Minute)
	c, fresh := r.container(""), r.container("")
	one := r.program(map[string]string{"x": "first"})
	one.serves()
	c.do("cat", c.paths[0]+"/x").prints("first")
	one.dies()
	onDead, onStandin := c.do("stat", c.paths[0]+"/x"), fresh.do("stat", fresh.paths[0]+"/x")
	onDead.isHeld()
	onStandin.isHeld()
	_ = unix.Unmount(one.vault, unix.MNT_FORCE) // which aborts the connection, though it is in use
	r.tell(wire.Event{Kind: wire.Forgotten, Volume: r.record.ID()})
	// The kernel looks a name up again when it cannot be confirmed, and finds no connection.
	onDead.prints("ENOTCONN")
	onStandin.prints("ECONNABORTED")
}

// ask asks as a process of the program's container does, until what the pair was told is in the
// answer.
func (r *rig) ask(t *testing.T, request, want string) {
	t.Helper()
	c := r.serverContainer()
	r.eventually(want, func() bool {
		select {
		case got := <-c.do("ask", filepath.Join(c.paths[0], wire.Socket), request).ended:
			return got == want
		case <-time.After(soon):
			return false
		}
	})
}

// A program can hide its descriptor, count as dead, and answer in the pair's place: the kernel
// tells of a signal as often as it says EAGAIN. What that has made must not go on by itself.
func TestADeadProgramThatAnswersMakesNoWork(t *testing.T) {
	r := newRig(t, time.Hour)
	c := r.container("")
	one := r.program(map[string]string{"x": "first"})
	one.serves()
	c.do("cat", c.paths[0]+"/x").prints("first")
	one.dies()
	var waiting []*process
	for range 32 {
		p := c.do("stat", c.paths[0]+"/x")
		p.isHeld()
		waiting = append(waiting, p)
	}
	s := r.fs.service.Load()
	held := map[caller]uint32{}
	s.outages.do(func() {
		for c, view := range s.outages.callers {
			held[c] = view.callers[c]
		}
	})
	for _, thread := range held {
		r.must(unix.Kill(int(thread), unix.SIGURG))
	}
	const interrupt = 1 // fs/fuse/fuse_i.h, FUSE_INT_REQ_BIT
	for end := time.Now().Add(while); time.Now().Before(end); {
		for c := range held {
			c.on.(*dead).fail(c.id|interrupt, fuse.EAGAIN)
		}
	}
	time.Sleep(while)
	used := func() time.Duration {
		var usage unix.Rusage
		r.must(unix.Getrusage(unix.RUSAGE_SELF, &usage))
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := used()
	time.Sleep(2 * while)
	if took := used() - before; took > while/2 {
		t.Errorf("%v of %d who wait take %v of a processor", 2*while, len(waiting), took)
	}
	for _, p := range waiting {
		r.must(p.cmd.Process.Kill())
		p.prints("")
	}
}

// What is queued again is no other request.
func TestWhatIsAskedTwiceIsHeldOnce(t *testing.T) {
	r := newRig(t, time.Hour)
	c := r.container("")
	one := r.program(map[string]string{"x": "first"})
	one.serves()
	c.do("cat", c.paths[0]+"/x").prints("first")
	one.dies()
	waiting := c.do("stat", c.paths[0]+"/x")
	waiting.isHeld()
	s := r.fs.service.Load()
	for range 20 {
		r.must(devfuse.Resend(int(one.device.Fd())))
		time.Sleep(10 * time.Millisecond)
	}
	held := func() (n, callers int) {
		s.outages.do(func() { n, callers = s.outages.volumes[r.record.ID()].held, len(s.outages.callers) })
		return n, callers
	}
	if n, callers := held(); n != callers || callers > 2 { // the first time, the kernel gives it another id
		t.Errorf("one waits, and %d are held, of %d callers", n, callers)
	}
	r.program(map[string]string{"x": "second"}).serves()
	waiting.prints("")
	if n, callers := held(); n != 0 || callers != 0 {
		t.Errorf("nobody waits, and %d are held, of %d callers", n, callers)
	}
}
