package mounter

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
)

// A mounter that ends at once is no mounter, and who needs one is told so.
func TestAMounterThatEndsAtOnce(t *testing.T) {
	dir := t.TempDir()
	c := Client{Config: Config{podfuse.Layout{RunDir: dir}, "fuse.pod-fuse", source, thisTest}, Log: calllog.New("test", filepath.Join(dir, "log"))}
	must(t, os.Mkdir(c.lockPath(), 0o755)) // so that it cannot be opened
	if _, err := c.Ensure(); err == nil || !strings.Contains(err.Error(), "ends as soon as it is started") {
		t.Errorf("%v", err)
	}
}

func TestServeAndAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{Sub: "there"})
	generation := c.serve(launchOptions{Text: "one", Mountpoint: "/m"})
	status := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	for _, pid := range []int{status.PID, status.Spare} {
		for _, set := range []string{"CapEff", "CapPrm", "CapBnd"} {
			const want = "00000000002c0004"
			eventually(t, fmt.Sprintf("%s of process %d is %s", set, pid, want), func() bool { // the spare gives them up as it begins
				fields, err := proc.StatusIn(fmt.Sprintf("/proc/%d", pid))
				must(t, err)
				return fields[set] == want
			})
		}
	}
	if text, err := c.read("/m/text"); text != "one" {
		t.Errorf("at the program's own mount point: %q, %v", text, err)
	}
	if text, err := c.read("/data/text"); err == nil {
		t.Errorf("before it is attached: %q", text)
	}
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	for _, path := range []string{"/data/text", "/sub/text"} {
		if text, err := c.read(path); text != "one" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Errorf("attached a second time: %s", problem)
	}

	c.killProgram()
	if died := w.event(wire.Died); died.Generation != generation || len(died.files) != 1 {
		t.Errorf("%+v", died)
	}
	if err := unix.Access("/proc/self/fd", 0); err != nil {
		t.Fatal(err)
	}
	next := c.serve(launchOptions{Text: "two", Mountpoint: "/m"})
	if next <= generation {
		t.Errorf("generation %d after %d", next, generation)
	}
	if problem := w.attach(generation, c.pid); !strings.Contains(problem, "does not serve") {
		t.Errorf("attach the dead generation: %q", problem)
	}
	if problem := w.attach(next, c.pid); problem != "" {
		t.Fatal(problem)
	}
	for _, path := range []string{"/data/text", "/sub/text", "/m/text"} {
		if text, err := c.read(path); text != "two" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if err := w.client.Forget(w.data.ID()); err != nil {
		t.Fatal(err)
	}
	w.event(wire.Forgotten)
}

// Of a container, another process is taken when one has ended.
func TestAProcessThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	c.serve(launchOptions{Text: "one"})
	program := c.programs("program")[0]
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", program))
	must(t, err)
	var asked []int
	look := func(p *process) error {
		if asked = append(asked, p.PID); p.PID == program {
			c.killProgram()
			eventually(t, "it ends", func() bool { return p.Alive() != nil })
			return p.Alive()
		}
		return nil
	}
	if err := inNamespace(mount.Namespace{PID: program, Name: name}, cgroup{}, look); err != nil || len(asked) != 2 || asked[0] != program {
		t.Errorf("asked %v, the program is %d; %v", asked, program, err)
	}
	asked = nil
	if err := inNamespace(mount.Namespace{PID: os.Getpid(), Name: name}, cgroup{}, look); err != nil || len(asked) != 1 || asked[0] == os.Getpid() {
		t.Errorf("a process of another namespace is there by now: asked %v, %v", asked, err)
	}
	c.kill()
	eventually(t, "there is none", func() bool {
		asked = nil
		must(t, inNamespace(mount.Namespace{PID: c.pid, Name: name}, cgroup{}, look))
		return asked == nil
	})
}

// silent begins a program that does not answer before SIGUSR1, and returns it once the mounter
// knows that it has the connection.
func (c *pod) silent(mountpoint string) (program int) {
	c.w.t.Helper()
	c.launch(0, launchOptions{Silent: true, Mountpoint: mountpoint})
	eventually(c.w.t, "there is a program", func() bool { return len(c.programs("program")) > 0 })
	c.w.status("it is given to it", func(s Status) bool { return len(s.Volumes) == 1 && s.Volumes[0].PID != 0 })
	return c.programs("program")[0]
}

// A program that is unmounted before it has answered serves nobody, also when it answers then.
func TestUnmountBeforeItAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	program := c.silent("/m")
	if answer := c.refused(0, launchOptions{Unmount: true, Mountpoint: "/m"}); answer != "served" {
		t.Fatalf("unmount: %s", answer)
	}
	// Now the request of the mounter that waits for its first answer is answered, and nobody uses
	// it any more.
	eventually(t, "it takes the signal", func() bool {
		status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", program))
		must(t, err)
		caught, err := status.Mask("SigCgt")
		return err == nil && caught&(1<<(unix.SIGUSR1-1)) != 0
	})
	eventually(t, "its end is told", func() bool {
		select {
		case e := <-w.events:
			packet.Close(e.files)
			if e.Kind == wire.ServedNow {
				t.Errorf("it is said to serve: %+v", e)
			}
			return e.Kind == wire.Died
		default:
			_ = unix.Kill(program, unix.SIGUSR1) // until it listens; it may have ended
			return false
		}
	})
	if status := w.now(); len(status.Volumes) > 0 && status.Volumes[0].Programs > 0 {
		t.Errorf("it counts as one that has served: %+v", status)
	}
}

// A program that is unmounted ends when nobody uses it, as with fusermount, though the mounter
// still waits for its first answer; and also where the mounter that waits for it has been killed.
func TestUnmountedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	t.Run("the mounter lives", func(t *testing.T) { t.Parallel(); unmountedWithoutAnAnswer(t) })
	for _, step := range []string{"left", "unmounting"} {
		t.Run("the mounter is killed at "+step, func(t *testing.T) {
			t.Parallel()
			killed, variable := killsAt(t, step)
			unmountedWithoutAnAnswer(t, variable)
			if !<-killed {
				t.Error("nothing was killed")
			}
		})
	}
}

func unmountedWithoutAnAnswer(t *testing.T, variables ...string) {
	w := newWorld(t, variables...)
	c := w.container(containerOptions{})
	program, err := unix.PidfdOpen(c.silent("/m"), 0)
	must(t, err)
	defer unix.Close(program)
	device, err := unix.PidfdGetfd(program, 3, 0)
	must(t, err)
	ended := func() bool {
		failed, err := proc.Polled(device, 0, 0)
		must(t, err)
		return failed
	}
	if ended() {
		t.Fatal("the kernel has ended the connection before it is unmounted")
	}
	if answer := c.refused(0, launchOptions{Unmount: true, Mountpoint: "/m"}); answer != "served" {
		t.Fatalf("unmount: %s", answer)
	}
	eventually(t, "the kernel ends the connection", ended)
	must(t, unix.Close(device)) // or its death is not one
	c.killProgram()
	generation := c.serve(launchOptions{Text: "next", Mountpoint: "/m"})
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Error(problem)
	}
	if text, err := c.read("/m/text"); text != "next" {
		t.Errorf("the next program: %q, %v", text, err)
	}
}

// A pod may use all that it has unmounted, without an end. The mounter follows some of it.
func TestManyThatHaveUnmounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	mounter := w.now().PID
	connections := func() (n int) {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", mounter))
		must(t, err)
		for _, link := range links {
			if file, _ := os.Readlink(link); file == "/dev/fuse" {
				n++
			}
		}
		return n
	}
	var used []*os.File // what is used does not end
	defer func() {
		for _, file := range used {
			file.Close()
		}
	}()
	round := func() {
		t.Helper()
		c.serve(launchOptions{Text: "one", Mountpoint: "/m"})
		file, err := os.Open(fmt.Sprintf("/proc/%d/root/m/text", c.pid))
		must(t, err)
		used = append(used, file)
		if answer := c.refused(0, launchOptions{Unmount: true, Mountpoint: "/m"}); answer != "served" {
			t.Fatalf("unmount: %s", answer)
		}
		w.event(wire.Died)
	}
	for range mostFormer {
		round()
	}
	most := connections()
	if most < mostFormer {
		t.Fatalf("of %d programs, the mounter has %d connections", mostFormer, most)
	}
	for range 4 {
		round()
	}
	eventually(t, "the mounter has as many connections as before", func() bool { return connections() <= most })
	for _, file := range used { // whoever has what was given up still has it
		if _, err := file.ReadAt(make([]byte, 3), 0); err != nil {
			t.Error(err)
		}
	}
}

// A volume is unmounted while the mounter mounts what a program is to serve on it. The program is
// refused, and nothing is left of it.
func TestUnmountWhileItIsMounted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		what  string
		later bool // what is unmounted is gone before, and the volume is not forgotten yet
	}{{"it is forgotten before", false}, {"it is forgotten after", true}} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			steps := []string{"device"}
			if row.later {
				steps = append(steps, "forget")
			}
			awaits, lets, variable := stopsAt(t, steps...)
			w := newWorld(t, variable)
			c := w.container(containerOptions{})
			answer, forgotten := make(chan string, 1), make(chan error, 1)
			go func() { answer <- c.refused(0, launchOptions{Mountpoint: "/m"}) }()
			awaits("device")
			go func() { forgotten <- w.client.Forget(w.data.ID()) }()
			if row.later {
				awaits("forget")
			} else {
				must(t, <-forgotten)
			}
			lets("device")
			if text := <-answer; !strings.Contains(text, errUnmounted.Error()) {
				t.Errorf("the program: %s", text)
			}
			if row.later {
				lets("forget")
				must(t, <-forgotten)
			}
			if left := w.inVault(); len(left) > 0 {
				t.Errorf("left in the vault: %q", left)
			}
			if left := c.mounts("fuse"); len(left) > 0 {
				t.Errorf("left in the container: %q", left)
			}
			if status := w.now(); len(status.Volumes) > 0 {
				t.Errorf("left: %+v", status)
			}
			c.serve(launchOptions{Text: "next", Mountpoint: "/m"})
			if text, err := c.read("/m/text"); text != "next" {
				t.Errorf("the next program: %q, %v", text, err)
			}
		})
	}
}

// A program that asked before its server volume was unmounted, and gets its connection afterwards,
// is refused.
func TestUnmountBeforeItIsAdmitted(t *testing.T) {
	t.Parallel()
	awaits, lets, variable := stopsAt(t, "admit")
	w := newWorld(t, variable)
	c := w.container(containerOptions{})
	answer := make(chan string, 1)
	go func() { answer <- c.refused(0, launchOptions{}) }()
	awaits("admit")
	must(t, w.client.ServerVolumes().Delete(w.server.ID()))
	must(t, w.client.Forget(w.data.ID()))
	lets("admit")
	if text := <-answer; !strings.Contains(text, errUnmounted.Error()) {
		t.Errorf("the program: %s", text)
	}
	if status := w.now(); len(status.Volumes) > 0 {
		t.Errorf("left: %+v", status)
	}
}

// What is removed of a program whose volume was unmounted is not the next program's, whose device
// may have the same number.
func TestUnmountWhileItIsSent(t *testing.T) {
	t.Parallel()
	awaits, lets, variable := stopsAt(t, "send", "abandon")
	w := newWorld(t, variable)
	c := w.container(containerOptions{})
	answer := make(chan string, 1)
	go func() { answer <- c.refused(0, launchOptions{Mountpoint: "/m"}) }()
	awaits("send")
	must(t, w.client.Forget(w.data.ID()))
	c.launch(0, launchOptions{Text: "next", Mountpoint: "/m"})
	lets("send")
	awaits("abandon")
	time.Sleep(500 * time.Millisecond) // in which the next one would have its mount
	lets("abandon")
	if text := <-answer; !strings.Contains(text, errUnmounted.Error()) {
		t.Errorf("the program: %s", text)
	}
	w.event(wire.ServedNow)
	if text, err := c.read("/m/text"); text != "next" {
		t.Errorf("the next program: %q, %v", text, err)
	}
}

// What the container has below the volume stays there, for each program: another volume, and
// this one.
func TestVolumeBelow(t *testing.T) {
	t.Parallel()
	for _, o := range []containerOptions{{Sub: "there", Below: "there"}, {Sub: "there", Within: "there"}} {
		t.Run(o.Below+" "+o.Within, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.container(o)
			for _, program := range []string{"one", "two"} {
				generation := c.serve(launchOptions{Text: program})
				below, want := "/data/there/file", "below"
				if o.Within != "" {
					below, want = "/data/there/text", program
				}
				for range 2 {
					if problem := w.attach(generation, c.pid); problem != "" {
						t.Fatal(problem)
					}
					for path, want := range map[string]string{"/data/text": program, "/sub/text": program, below: want} {
						if text, err := c.read(path); text != want {
							t.Errorf("%s: %q, %v, want %q", path, text, err, want)
						}
					}
				}
				c.killProgram()
				w.died(generation)
			}
		})
	}
}

// A program's user unmounts it, as with fusermount -u: it serves nobody any more, in no container,
// and another program can serve at once. It ends when nobody uses what it has served, and not
// before.
func TestUnmount(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"", "left", "tell died", "unmounting"} {
		t.Run(fmt.Sprintf("the mounter is killed at %q", step), func(t *testing.T) {
			t.Parallel()
			var killed <-chan bool
			var variables []string
			if step != "" {
				variables = make([]string, 1)
				killed, variables[0] = killsAt(t, step)
			}
			w := newWorld(t, variables...)
			c, other := w.container(containerOptions{Sub: "there"}), w.container(containerOptions{})
			one := c.serve(launchOptions{User: 1000, Text: "one", Mountpoint: "/mine"})
			for _, in := range []*pod{c, other} {
				if problem := w.attach(one, in.pid); problem != "" {
					t.Fatal(problem)
				}
			}
			open, err := os.Open(fmt.Sprintf("/proc/%d/root/data/text", other.pid))
			must(t, err)
			defer open.Close()
			for path, user := range map[string]int{"/m": 1000, "/mine": 1001, "/data": 1000} {
				if answer := c.refused(user, launchOptions{Unmount: true, Mountpoint: path}); answer == "served" {
					t.Errorf("user %d has unmounted %s", user, path)
				}
			}
			if mounts := c.mounts("fuse"); len(mounts) != 3 {
				t.Errorf("%q", mounts)
			}

			if answer := c.refused(1000, launchOptions{Unmount: true, Mountpoint: "/mine"}); answer != "served" {
				t.Errorf("unmount: %s", answer)
			}
			left := w.event(wire.Died)
			if left.Generation != one || len(left.files) != 0 || left.Since.IsZero() {
				t.Errorf("%+v", left)
			}
			for _, in := range []*pod{c, other} {
				if mounts := in.mounts("fuse"); len(mounts) > 0 {
					t.Errorf("left: %q", mounts)
				}
			}
			for _, generation := range []uint64{one, 0} {
				w.order(wire.Order{Kind: wire.Spent, Volume: w.data.ID(), Generation: generation})
				if problem := w.attach(generation, c.pid); !strings.Contains(problem, "does not serve") {
					t.Errorf("attach generation %d: %q", generation, problem)
				}
			}
			if answer := c.refused(1000, launchOptions{Unmount: true, Mountpoint: "/mine"}); answer == "served" {
				t.Error("it was unmounted twice")
			}
			text := make([]byte, 3)
			if _, err := open.ReadAt(text, 0); err != nil || string(text) != "one" {
				t.Errorf("who has a file open reads %q, %v", text, err)
			}

			two := c.serve(launchOptions{User: 1000, Text: "two", Mountpoint: "/mine"})
			if problem := w.attach(two, other.pid); problem != "" {
				t.Fatal(problem)
			}
			for path, in := range map[string]*pod{"/data/text": other, "/mine/text": c} {
				if text, err := in.read(path); text != "two" {
					t.Errorf("%s: %q, %v", path, text, err)
				}
			}
			if programs := c.programs("program"); len(programs) != 2 {
				t.Errorf("not two programs, but %v", programs)
			}
			must(t, open.Close())
			eventually(t, "the first one ends", func() bool { return len(c.programs("program")) == 1 })
			died := w.died(one)
			for step != "" && len(died.files) == 0 { // the next mounter tells again that it has left
				died = w.died(one)
			}
			if step != "" && !<-killed {
				t.Error("nothing was killed")
			}
			if len(died.files) != 1 || !died.Since.Equal(left.Since) {
				t.Errorf("left %+v, died %+v", left, died)
			}
			w.order(wire.Order{Kind: wire.Spent, Volume: w.data.ID(), Generation: one})
			w.status("the second one alone", func(s Status) bool {
				return len(s.Volumes) == 1 && s.Volumes[0].Generation == two && s.Volumes[0].Dead == 0
			})
		})
	}
}

// When a program serves, those before it are unmounted in the vault, also where the mounter is
// killed at it.
func TestFormerProgramsInTheVault(t *testing.T) {
	t.Parallel()
	killed, variable := killsAt(t, "former")
	w := newWorld(t, variable)
	c := w.container(containerOptions{})
	one := c.serve(launchOptions{Text: "one"})
	c.killProgram()
	w.died(one)
	c.serve(launchOptions{Text: "two"})
	if !<-killed {
		t.Fatal("nothing was killed")
	}
	eventually(t, "the vault has the second one alone", func() bool { return len(w.inVault()) == 2 })
}

// A pair that does not read for a while is told what it has missed.
func TestSlowPair(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one"})
	for range 2*mostEvents + cap(w.events) {
		w.order(wire.Order{Kind: "unknown"}) // whose answers wait
	}
	c.killProgram()
	time.Sleep(200 * time.Millisecond)
	w.died(generation)
}

// An unmount that fails, as while the node mount is not there, can be asked for once more.
func TestUnmountOnceMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, reader := w.container(containerOptions{}), w.container(containerOptions{Reads: true})
	generation := c.serve(launchOptions{Text: "served", Mountpoint: "/m"})
	if problem := w.attach(generation, reader.pid); problem != "" {
		t.Fatal(problem)
	}
	back := w.withoutNodeMount()
	if answer := c.refused(0, launchOptions{Unmount: true, Mountpoint: "/m"}); answer == "served" { // the pair tells why
		t.Errorf("without the node mount: %q", answer)
	}
	back()
	if answer := c.refused(0, launchOptions{Unmount: true, Mountpoint: "/m"}); answer != "served" {
		t.Errorf("once more: %q", answer)
	}
}
