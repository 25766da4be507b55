package standin

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/hold"
)

// answerer is the connection of the stand-ins.
type answerer struct {
	*world
	killed map[uint64]bool // requests
}

func (a answerer) Fail(id uint64, status fuse.Status) { named{a.world, "s"}.fail(id, status) }
func (a answerer) Serve(message []byte)               { a.note("served %s", message) }
func (a answerer) Waits(id uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.killed[id]
}

// looking returns a service that looks at processes of a tree.
func looking(t *testing.T, files tree) (*service, *answerer) {
	t.Helper()
	w := &world{t: t, wait: time.Minute}
	w.o = newOutages(w)
	t.Cleanup(w.o.end)
	a := &answerer{w, map[uint64]bool{}}
	s := &service{processes: files.processes(t), standins: standins{a}, outages: w.o}
	s.looks.Most = mostLooks
	return s, a
}

func (s *service) asks(t *testing.T, id uint64, thread uint32, message string) {
	t.Helper()
	text := []byte(message)
	if !s.hold(clientRecord, hold.Request{ID: id, PID: thread, Message: text}) {
		t.Errorf("process %d is not looked at", thread)
	}
	clear(text) // the buffer is used again
}

// holds expects so many requests to be held.
func (a answerer) holds(want int) {
	a.t.Helper()
	a.o.mu.Lock()
	defer a.o.mu.Unlock()
	if got := len(a.o.callers); got != want {
		a.t.Errorf("%d requests are held, want %d", got, want)
	}
}

// happens expects what has happened since the last time.
func (a answerer) happens(want ...string) {
	a.t.Helper()
	if got := a.happened(); !slices.Equal(got, want) {
		a.t.Errorf("%q, want %q", got, want)
	}
}

func TestWhoIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := looking(t, tree{}.process(t, "101", "systemd", "container").process(t, "102", "systemd", "runc-init").process(t, "103", "kubelet", "host").
			process(t, "104", "other-pod", "container"))
		s.asks(t, 1, 101, "a")
		s.asks(t, 2, 102, "b")
		synctest.Wait()
		a.holds(1)
		is("served b")(a.world)
		s.asks(t, 3, 103, "c")
		synctest.Wait()
		is("served c")(a.world)
		if s.hold(clientRecord, hold.Request{ID: 4, PID: 104}) {
			t.Error("another pod's process is looked at")
		}
		a.holds(1)
	})
}

// slow has the first look at a thread take as long as the kernel says: it returns when that has
// begun, and end ends it.
func slow(t *testing.T, s *service, thread, mounts string) (begun func(), end func()) {
	t.Helper()
	path := filepath.Join(s.processes.proc, thread, "mountinfo")
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	var file *os.File
	begun = func() {
		var err error
		if file, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil { // waits until it is read
			t.Fatal(err)
		}
		again := path + ".again" // the second look does not wait
		if err := errors.Join(os.WriteFile(again, []byte(mounts), 0o600), os.Rename(again, path)); err != nil {
			t.Error(err)
		}
	}
	return begun, func() {
		if _, err := file.WriteString(mounts); err != nil {
			t.Error(err)
		}
		file.Close()
	}
}

// While the kernel keeps a look waiting, requests are read, and no second look takes a thread. A
// request whose process is killed is not held.
func TestNobodyWhoReadsRequestsWaitsForALook(t *testing.T) {
	files := tree{}.process(t, "101", "systemd", "container").process(t, "102", "systemd", "container").process(t, "103", "kubelet", "host")
	s, a := looking(t, files)
	begun, end := slow(t, s, "101", files["101/mountinfo"])
	s.asks(t, 1, 101, "a")
	begun()
	s.asks(t, 2, 102, "b")
	s.asks(t, 3, 102, "killed")
	s.asks(t, 4, 103, "c")
	time.Sleep(while / 3)
	a.holds(0)
	a.happens("served c") // the host does not wait for pods
	a.mu.Lock()
	a.killed[3] = true
	a.mu.Unlock()
	end()
	eventually(t, "all are looked at", func() bool {
		a.o.mu.Lock()
		defer a.o.mu.Unlock()
		return len(a.o.callers) == 2
	})
	s.asks(t, 5, 102, "the last one")
	eventually(t, "it is looked at", func() bool {
		a.o.mu.Lock()
		defer a.o.mu.Unlock()
		return len(a.o.callers) == 3
	})
	a.happens()
}

// A pod whose threads ask, and are killed, again and again takes a bounded memory.
func TestLooksOfAPodAreBounded(t *testing.T) {
	files := tree{}.process(t, "101", "systemd", "container").process(t, "103", "kubelet", "host")
	s, a := looking(t, files)
	begun, end := slow(t, s, "101", files["101/mountinfo"])
	s.asks(t, 1, 101, "a")
	begun()
	for id := range uint64(mostLooks) {
		s.asks(t, 2+id, 101, "")
	}
	a.happens()
	s.asks(t, 100_000, 101, "")
	s.asks(t, 100_001, 103, "c")
	eventually(t, "the host is answered", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.Equal(a.world.happens, []string{"s100000 ENOTCONN", "served c"})
	})
	end()
}
