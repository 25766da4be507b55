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

	"example.com/pod-info-fuse/podfuse/mounter/keep"
)

// childrenLeft are the mounter's that are on an errand, wherever they are by now.
func (w *world) childrenLeft() (pids []string) {
	w.t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", w.now().PID))
	must(w.t, err)
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(children)) {
			text, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if words := strings.Split(string(text), "\x00"); len(words) > 1 && words[1] == childVerb {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func (c *child) ends(t *testing.T) {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(10 * time.Second):
		t.Error("a child that nobody needs does not end")
		_ = c.process.Kill()
	}
}

// Whatever comes by its pipe, a child ends.
func TestAChildWithoutAnErrand(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":        "",
		"garbage":        "\x00\xff{",
		"half":           `{"kind":"na`,
		"no errand":      `{"kind":"no such errand"}`,
		"no descriptors": `{"kind":"attach","dir":"x","pid":1}`,
		"no link":        `{"kind":"receive"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newChild(0)
			must(t, err)
			defer c.close()
			_, err = c.errand.WriteString(text)
			must(t, errors.Join(err, c.errand.Close()))
			c.ends(t)
		})
	}
}

// A child that is on an errand ends with its mounter, whatever it waits for.
func TestAChildEndsWithItsMounter(t *testing.T) {
	t.Parallel()
	c, err := newChild(0)
	must(t, err)
	defer c.close()
	must(t, errors.Join(json.NewEncoder(c.errand).Encode(job{Kind: "wait"}), c.errand.Close()))
	c.ends(t)
}

// These errands are for tests: the children are of this binary.
func init() {
	errands["nothing"] = func(job) (result, error) { return result{}, nil }
	// Its first child dies, as it does where all processes of the driver are killed.
	errands["die once"] = func(j job) (result, error) {
		if os.Mkdir(j.Path, 0o700) == nil {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		return result{}, nil
	}
	errands["wait"] = func(job) (result, error) { time.Sleep(time.Hour); return result{}, nil }
	errands["die"] = func(job) (result, error) { return result{}, unix.Kill(os.Getpid(), unix.SIGKILL) }
	errands["stop"] = func(job) (result, error) {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		time.Sleep(hang) // this thread may go on for a while
		return result{}, nil
	}
}

// Children that hang in the containers of a pod are few, and nobody waits for their end. Those of
// another pod are not affected.
func TestFewHang(t *testing.T) {
	t.Parallel()
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
	m := newMounter(&base{set: keep.New(), log: t.Logf})
	defer m.takesTurns()()
	m.do(func() { m.set.Put(vaultName, struct{}{}, null) })
	name := "some"
	paths := 0
	enter := func(pod string, most int, limit time.Duration) error {
		paths++
		return m.enter(pod, most, limit, job{Kind: "uncover", PID: c.pid, StandIns: []standIn{{Path: fmt.Sprint("/mine/", name, paths), Above: 1, Top: 1}}}, process)
	}
	if err := enter("one", mostHanging, hang); errors.Is(err, errHangs) || errors.Is(err, errManyHang) {
		t.Fatal(err)
	}
	name = "never"
	for i := range mostHangingOut {
		eventually(t, "another child hangs", func() bool { // and is not one that had no time to begin
			if err := enter("one", mostHangingOut, time.Second); !errors.Is(err, errHangs) {
				t.Errorf("child %d: %v", i, err)
			}
			time.Sleep(100 * time.Millisecond)
			hanging := 0
			m.do(func() {
				if p := m.of["one"]; p != nil {
					hanging = p.hanging
				}
			})
			return hanging == i+1
		})
		most := m.enter("one", mostHanging, hang, job{Kind: "nothing"}, process)
		if full := errors.Is(most, errManyHang); full != (i+1 >= mostHanging) {
			t.Errorf("%d hang, and another one to mount: %v", i+1, most)
		}
	}
	began := time.Now()
	if err := enter("one", mostHangingOut, hang); !errors.Is(err, errManyHang) {
		t.Errorf("one more: %v", err)
	}
	if waited := time.Since(began); waited > hang/2 {
		t.Errorf("one more has waited for %v", waited)
	}
	if err := enter("another", mostHanging, time.Second/2); !errors.Is(err, errHangs) {
		t.Errorf("of another pod: %v", err)
	}
	for _, pid := range c.programs("everyname") {
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
	eventually(t, "nobody hangs any more", func() bool {
		left := 1
		m.do(func() { left = len(m.of) })
		return left == 0
	})
}

// An errand may be longer than what is queued. Where a child dies, another one is sent, and one
// that does not answer is killed in time.
func TestErrands(t *testing.T) {
	t.Parallel()
	m := newMounter(&base{set: keep.New(), log: t.Logf})
	defer m.takesTurns()()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	m.do(func() { m.set.Put(vaultName, struct{}{}, null) }) // none of these errands enters it
	for name, test := range map[string]struct {
		job   job
		limit time.Duration
		want  error
	}{
		"it is short":             {job{Kind: "nothing"}, hang, nil},
		"it is long":              {job{Kind: "nothing", Path: strings.Repeat("x", 1<<20)}, hang, nil},
		"the first child dies":    {job{Kind: "die once", Path: filepath.Join(t.TempDir(), "died")}, hang, nil},
		"two children die":        {job{Kind: "die"}, hang, errDied},
		"the child stands still":  {job{Kind: "stop"}, time.Second, errHangs},
		"there is no such errand": {job{Kind: "no such errand"}, hang, errDied},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := m.carryOut(test.limit, test.job)
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("%v, want %v", err, test.want)
			}
			c.ends(t)
		})
	}
}
