package standin

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestAVolumesShareOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		for range 3 { // periods
			p.spend(one, share-1)
			if !p.may(one) {
				t.Error("it has something left, and may not")
			}
			p.spend(one, 1)
			if p.may(one) || !p.may(other) {
				t.Errorf("it has nothing left: %v; the other: %v", p.may(one), p.may(other))
			}
			time.Sleep(period - 1)
			if p.may(one) {
				t.Error("the period is not over, and it may")
			}
			time.Sleep(time.Nanosecond)
		}
	})
}

// Who is looked at later is looked at one after the other, however many there are.
func TestLaterLooksAreOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		looks, most, all := 0, 0, 0
		for id := range uint64(1000) {
			p.park(one, caller{id: id}, func() {
				looks, all = looks+1, all+1
				most = max(most, looks)
				time.Sleep(time.Millisecond)
				looks--
			})
		}
		time.Sleep(period + 2*time.Second)
		synctest.Wait()
		if most != 1 || all != 1000 {
			t.Errorf("%d looks, and %d at a time", all, most)
		}
	})
}

// In a cgroup of its pod, whoever asks too often is looked at later. Its cgroup is faked.
func TestWhoAsksTooOftenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := tree{}.process(t, "101", "systemd", "container").process(t, "102", "systemd", "runc-init").process(t, "103", "kubelet", "host")
		w := &world{t: t, wait: time.Minute}
		w.o = newOutages(w)
		defer w.o.end()
		s := &service{processes: files.processes(t), pace: newPace(), outages: w.o}
		defer s.pace.end()
		ask := func(id uint64, thread uint32) bool {
			return s.hold(clientRecord, thread, caller{w.on("s"), id})
		}
		held := func(want int) {
			t.Helper()
			synctest.Wait()
			w.o.mu.Lock()
			defer w.o.mu.Unlock()
			if got := len(w.o.callers); got != want {
				t.Errorf("%d are held, want %d", got, want)
			}
		}
		if !ask(1, 101) || ask(2, 102) || ask(3, 103) {
			t.Error("at first, a request is not as its process is")
		}
		held(1)
		s.pace.spend(clientRecord.ID(), time.Hour)
		if !ask(4, 101) || !ask(5, 102) || ask(6, 103) || !ask(7, 101) {
			t.Error("with no share left, a request of the pod is answered, or one of the host is not")
		}
		if !s.pace.leave(caller{w.on("s"), 7}) {
			t.Error("who is killed is not forgotten")
		}
		held(1)
		time.Sleep(period - 1)
		is()(w)
		held(1)
		time.Sleep(time.Millisecond)
		held(2)
		is("s5 ESTALE")(w)
	})
}

// slowLook returns a service in which the first look at thread 101 takes as long as a function.
func slowLook(t *testing.T, w *world, during func()) *service {
	t.Helper()
	files := tree{}.process(t, "101", "systemd", "container")
	w.o = newOutages(w)
	t.Cleanup(w.o.end)
	s := &service{processes: files.processes(t), pace: newPace(), outages: w.o}
	t.Cleanup(s.pace.end)
	slow := filepath.Join(s.processes.proc, "101/mountinfo")
	if err := errors.Join(os.Remove(slow), unix.Mkfifo(slow, 0o600)); err != nil {
		t.Fatal(err)
	}
	go func() {
		file, err := os.OpenFile(slow, os.O_WRONLY, 0) // waits until it is read
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		again := slow + ".again" // who looks a second time does not wait
		if err := errors.Join(os.WriteFile(again, []byte(files["101/mountinfo"]), 0o600), os.Rename(again, slow)); err != nil {
			t.Error(err)
		}
		during()
		if _, err := file.WriteString(files["101/mountinfo"]); err != nil {
			t.Error(err)
		}
	}()
	return s
}

// What a look costs does not depend on who else is busy on the machine: here, on whoever has the
// kernel wait.
func TestALookThatWaitsIsFree(t *testing.T) {
	w := &world{t: t, wait: time.Minute}
	s := slowLook(t, w, func() { time.Sleep(2 * share) })
	if !s.hold(clientRecord, 101, caller{w.on("s"), 1}) {
		t.Error("it is not held")
	}
	if !s.pace.may(clientRecord.ID()) {
		t.Error("no share is left")
	}
	if took := processorTime(func() {
		for range 1000 {
			_, _ = os.ReadFile("/proc/self/mountinfo")
		}
	}); took < time.Millisecond {
		t.Errorf("to read took %v", took)
	}
}
