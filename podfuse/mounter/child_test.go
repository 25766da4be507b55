package mounter

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/mounter/keep"
)

// childrenLeft are those of this test, wherever they are by now.
func childrenLeft() (pids []string) {
	own, _ := os.Readlink("/proc/self/exe")
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		text, _ := os.ReadFile(name)
		exe, _ := os.Readlink(filepath.Join(filepath.Dir(name), "exe"))
		if words := strings.Split(string(text), "\x00"); exe == own && len(words) > 1 && words[1] == childVerb {
			pids = append(pids, strings.Split(name, "/")[2])
		}
	}
	return pids
}

// Whatever comes by its socket, a child ends, and says nothing.
func TestAChildWithoutAnErrand(t *testing.T) {
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	good, _ := json.Marshal(job{Kind: "names"})
	for name, test := range map[string]struct {
		text  string
		files int
	}{
		"nothing":               {"", 0},
		"garbage":               {"\x00\xff{", 1},
		"half":                  {`{"kind":"na`, 1},
		"no errand":             {`{"kind":"nothing"}`, 1},
		"no descriptors":        {string(good), 0},
		"many descriptors":      {string(good), 100},
		"a wrong one":           {`{"kind":"attach","dir":"x","pid":1}`, 1},
		"of another kind, four": {`{"kind":"receive"}`, 4},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newChild()
			must(t, err)
			if test.text != "" {
				must(t, c.give(childTime, "x", []byte(test.text), slices.Repeat([]*os.File{null}, test.files)))
			}
			if test.text == "" {
				c.link.Close()
			} else {
				_ = c.link.CloseWrite()
				_, err := c.wait(time.Now().Add(childTime))
				t.Logf("%v", err)
			}
			select {
			case <-c.ended:
			case <-time.After(childTime):
				t.Error("it has not ended")
				_ = c.process.Kill()
			}
		})
	}
}

// stoppedChild is one that was stopped before it has begun.
func stoppedChild(t *testing.T) *child {
	t.Helper()
	for range 20 {
		c, err := newChild()
		must(t, err)
		must(t, c.process.Signal(unix.SIGSTOP))
		select {
		case <-c.runs: // it was faster
			c.link.Close()
			must(t, c.process.Signal(unix.SIGCONT))
			c.ends(t)
		case <-time.After(200 * time.Millisecond):
			t.Cleanup(func() { _ = c.process.Kill() })
			return c
		}
	}
	t.Fatal("no child could be stopped before it began")
	return nil
}

// A child that is stopped before it has begun is killed in time, also for an errand that may take for ever.
func TestAChildThatDoesNotBegin(t *testing.T) {
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	c := stoppedChild(t)
	must(t, c.give(childTime, "probe", []byte(`{"kind":"probe"}`), []*os.File{null}))
	done := make(chan error, 1)
	go func() {
		_, err := c.wait(time.Time{})
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, errDied) {
			t.Errorf("%v", err)
		}
	case <-time.After(childTime + hang):
		t.Error("it is waited for")
		_ = c.process.Kill()
	}
	c.ends(t)
}

// Where a ready child is stopped, there is time left for another one, until it has its errand. So it is for an errand
// that may take for ever.
func TestAnotherChildBegins(t *testing.T) {
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	begun := func(t *testing.T) *child {
		c, err := newChild()
		must(t, err)
		<-c.runs
		must(t, c.process.Signal(unix.SIGSTOP))
		return c
	}
	for name, test := range map[string]struct {
		stopped func(*testing.T) *child
		limit   time.Duration
		bytes   int
	}{
		"it was stopped before it waited for its errand": {stoppedChild, childTime, 1},
		"afterwards": {begun, childTime, 1},
		"afterwards, and the errand has no limit":              {begun, 0, 1},
		"afterwards, and the errand is longer than its socket": {begun, childTime, 20 * mostOfErrand},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mounter{turns: make(chan func()), set: keep.New(), log: t.Logf}
			defer m.takesTurns()()
			m.do(func() { m.set.Put(vaultName, vaultMeta{Locks: true}, null) })
			stopped := test.stopped(t)
			stopped.born = stopped.born.Add(-childTime) // it had time
			t.Cleanup(func() { _ = stopped.process.Kill() })
			m.ready.waiting = []*child{stopped}
			if _, err := m.send(test.limit, job{Kind: "nothing", Path: strings.Repeat("x", test.bytes)}); err != nil {
				t.Error(err)
			}
			stopped.ends(t)
		})
	}
}

// nothing is an errand for tests: the children are of this binary.
func init() { errands["nothing"] = func(job) (result, error) { return result{}, nil } }

// Children that hang in the containers of a pod are few, and none is sent to where one hangs already. Those of another
// pod are not affected.
func TestFewHang(t *testing.T) {
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	w := newWorld(t)
	c := w.container(containerOptions{})
	defer c.everyName("/mine")()
	pidfd, err := unix.PidfdOpen(c.pid, 0)
	must(t, err)
	process := os.NewFile(uintptr(pidfd), "the container")
	defer process.Close()
	m := &mounter{turns: make(chan func()), set: keep.New(), log: t.Logf, children: map[string]*podChildren{}}
	defer m.takesTurns()()
	m.do(func() { m.set.Put(vaultName, vaultMeta{Locks: true}, null) })
	name := "some"
	paths := 0
	enter := func(pod string, most int, limit time.Duration) (err error) {
		err = errDied
		for range 20 { // where it has not begun in time
			if !errors.Is(err, errDied) {
				break
			}
			paths++
			err = m.enter(pod, most, limit, job{Kind: "detach", PID: c.pid, Path: fmt.Sprint("/mine/", name, paths), Device: 1}, process)
		}
		return err
	}
	if err := enter("one", mostHanging, hang); errors.Is(err, errHangs) || errors.Is(err, errManyHang) {
		t.Fatal(err)
	}
	name = "never"
	for i := range mostHangingOut {
		if i > 0 {
			same := job{Kind: "detach", PID: c.pid, Path: fmt.Sprint("/mine/", name, paths), Device: 1}
			if err := m.enter("one", mostHangingOut, hang, same, process); !errors.Is(err, errHangs) {
				t.Errorf("where child %d hangs: %v", i-1, err)
			}
		}
		if err := enter("one", mostHangingOut, time.Second/2); !errors.Is(err, errHangs) {
			t.Errorf("child %d: %v", i, err)
		}
		most := m.enter("one", mostHanging, time.Second/2, job{Kind: "nothing"}, process)
		if full := errors.Is(most, errManyHang); full != (i+1 >= mostHanging) {
			t.Errorf("%d hang, and another one to mount: %v", i+1, most)
		}
	}
	if err := enter("one", mostHangingOut, time.Second/2); !errors.Is(err, errManyHang) {
		t.Errorf("one more: %v", err)
	}
	if err := enter("another", mostHanging, time.Second/2); !errors.Is(err, errHangs) {
		t.Errorf("of another pod: %v", err)
	}
	for _, pid := range c.programs("everyname") {
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
	eventually(t, "nobody hangs any more", func() bool {
		left := 1
		m.do(func() { left = len(m.children) })
		return left == 0
	})
}

// An errand may be longer than a packet, and than what is queued; a child that has died, or that does not take it,
// is an error.
func TestALongErrand(t *testing.T) {
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	for _, bytes := range []int{1, mostOfErrand, 5 * mostOfErrand, 20 * mostOfErrand} {
		text, err := json.Marshal(job{Kind: "nothing", Path: strings.Repeat("x", bytes)})
		must(t, err)
		c, err := newChild()
		must(t, err)
		must(t, c.give(childTime, "nothing", text, []*os.File{null}))
		if _, err := c.wait(time.Now().Add(childTime)); err != nil {
			t.Errorf("%d bytes: %v", len(text), err)
		}
		c.ends(t)

		c, err = newChild()
		must(t, err)
		must(t, c.process.Signal(unix.SIGSTOP))
		began := time.Now()
		giveErr := c.give(childTime, "nothing", text, []*os.File{null})
		t.Logf("%d bytes, to a child that is stopped: %v after %v", len(text), giveErr, time.Since(began))
		c.link.Close()
		must(t, c.process.Kill())
		c.ends(t)

		c, err = newChild()
		must(t, err)
		must(t, c.process.Kill())
		c.ends(t)
		if c.give(childTime, "nothing", text, []*os.File{null}) == nil {
			t.Errorf("%d bytes were given to nobody", len(text))
		}
		c.link.Close()
	}
}

// Children that wait for an errand end with the mounter.
func TestReadyChildren(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	for i := range 3 {
		generation := c.serve(launchOptions{Text: fmt.Sprint(i)})
		c.killProgram()
		w.died(generation)
		eventually(t, "one waits", func() bool { return len(childrenLeft()) > 0 })
		before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
		must(t, unix.Kill(before.PID, unix.SIGKILL))
		w.status("the spare", func(s Status) bool { return s.PID != before.PID })
		eventually(t, "it ends", func() bool { return len(childrenLeft()) == 0 })
	}
	generation := c.serve(launchOptions{Text: "last"})
	c.killProgram()
	w.died(generation)
	eventually(t, "none waits for ever", func() bool { return len(childrenLeft()) == 0 })
}
