package mounter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// Neither the process that asked counts, nor the one that was started: whoever has the connection
// open does.
func TestWhoIsAlive(t *testing.T) {
	for _, mode := range []string{"", "keep", "exit", "daemon", "exec"} {
		t.Run("mode "+mode, func(t *testing.T) {
			w := newWorld(t)
			c := w.container(containerOptions{})
			generation := c.serve(launchOptions{Mode: mode, Text: "one"})
			if mode == "daemon" {
				for i := 0; len(c.programs("program")) != 1; i++ { // the first one ends
					if i == 200 {
						t.Fatal("the program does not fork")
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
			for _, pid := range c.programs("launcher") {
				if mode != "exec" && mode != "keep" {
					must(t, unix.Kill(pid, unix.SIGKILL))
				}
			}
			for _, pid := range c.programs("program") {
				if mode != "exec" { // nsenter(1) would stop, too, and not wait for it
					must(t, unix.Kill(pid, unix.SIGSTOP))
				}
			}
			w.quiet("a program that was stopped", 1500*time.Millisecond)
			began := c.killProgram()
			died := w.died(generation)
			if took := time.Since(began); took > 100*time.Millisecond || len(died.files) != 1 || died.Since.Before(began) {
				t.Errorf("died after %v, since %v: %+v", took, died.Since, died)
			}
		})
	}
}

// A program that dies before it has answered leaves nothing, and keeps no other from serving.
func TestNeverServed(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	if answer := c.refused(0, launchOptions{Mountpoint: "/m"}); answer != "served" { // and it ends
		t.Fatal(answer)
	}
	began := time.Now()
	c.serve(launchOptions{Text: "two", Mountpoint: "/m"})
	if took := time.Since(began); took > time.Second {
		t.Errorf("the next program waits for %v", took)
	}
	if mounts := c.mounts("fuse"); len(mounts) != 1 {
		t.Errorf("%q", mounts)
	}
	c.killProgram()
	w.event(wire.Died)
	must(t, w.client.Forget(w.data.ID()))

	c.launch(0, launchOptions{Silent: true, Mountpoint: "/m"})
	for i := 0; len(c.programs("program")) == 0; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	w.quiet("a program that has not answered yet", 200*time.Millisecond)
	c.killProgram()
	if died := w.event(wire.Died); len(died.files) != 0 {
		t.Errorf("it comes with its connection: %+v", died)
	}
	if mounts := c.mounts("fuse"); len(mounts) != 0 {
		t.Errorf("left: %q", mounts)
	}
	if status, _ := w.client.Status(); len(status.Volumes) != 0 {
		t.Errorf("left: %+v", status)
	}
}

func TestTwoPrograms(t *testing.T) {
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
	if took, late := watch.Stop(); took > childTime { // a child was waited for in vain
		t.Errorf("took %v, and the machine stood still for %v", took, late)
	}
}

// Wherever the mounter is killed, its spare goes on.
func TestKilled(t *testing.T) {
	steps := []string{"begin and after", "order serve", "admit", "mount", "own", "send", "sent", "answer serve", "served",
		"order attach", "attach", "answer attach", "died", "told", "order hello"}
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			stopped := filepath.Join(t.TempDir(), "stopped")
			old := environment
			environment = append(slices.Clone(environment), "PAUSE="+step+"="+stopped)
			defer func() { environment = old }()
			killed := make(chan bool, 1)
			go func() {
				defer close(killed)
				for range 2000 {
					text, _ := os.ReadFile(stopped)
					var pid int
					if _, err := fmt.Sscan(string(text), &pid); err == nil {
						killed <- unix.Kill(pid, unix.SIGKILL) == nil
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
			w := newWorld(t)
			c := w.container(containerOptions{Sub: "there"})
			before, err := w.client.Status()
			must(t, err)
			if step == "begin and after" { // the kill of those that have just begun
				for range 3 {
					status, err := w.client.Status()
					must(t, err)
					if status.Spare != 0 {
						must(t, unix.Kill(status.PID, unix.SIGKILL))
					}
					time.Sleep(50 * time.Millisecond)
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
			after, err := w.client.Status()
			must(t, err)
			if after.PID == before.PID && step != "order hello" || after.Identity != before.Identity || len(after.Volumes) != 1 {
				t.Errorf("before %+v, after %+v", before, after)
			}
		})
	}
}

// The spare is replaced when it dies, another version takes over with all that there is, one that
// hangs is killed, and when all are lost a new one begins.
func TestSpareAndVersions(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	one := c.serve(launchOptions{Text: "one"})
	w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	first, _ := w.client.Status()

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

	must(t, unix.Kill(second.PID, unix.SIGSTOP)) // it hangs
	if identity, err := newer.Ensure(); err != nil || identity != first.Identity {
		t.Errorf("after a hang: %q, %v", identity, err)
	}
	third := w.status("the spare", func(s Status) bool { return s.PID != second.PID && s.Spare != 0 })
	c.killProgram()
	if died := w.died(one); len(died.files) != 1 {
		t.Errorf("%+v", died)
	}

	must(t, unix.Kill(third.Spare, unix.SIGSTOP))
	must(t, unix.Kill(third.PID, unix.SIGKILL))
	must(t, unix.Kill(third.Spare, unix.SIGKILL))
	if identity, err := newer.Ensure(); err != nil || identity == first.Identity {
		t.Errorf("all lost: %q, %v", identity, err)
	}
	w.connect()
	c.serve(launchOptions{Text: "two"})
}

// status waits for one.
func (w *world) status(what string, is func(Status) bool) (s Status) {
	w.t.Helper()
	for range 500 {
		var err error
		if s, err = w.client.Status(); err == nil && is(s) {
			return s
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("no %s: %+v", what, s)
	return s
}
