package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/slowclose"
)

func TestMain(m *testing.M) {
	slowclose.Intercept()
	os.Exit(m.Run())
}

// Of a process that hangs in execve(2), nobody who asks hangs. What is said to be safe is.
func TestAskOfWhoExecutes(t *testing.T) {
	f := slowclose.Mount(t)
	cmd := f.Execute(t, "/bin/sleep", "sleep", "3600")
	t.Cleanup(func() {
		f.Answer()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := cmd.Process.Pid
	dir := fmt.Sprintf("/proc/%d/", pid)

	for _, safe := range []string{"status", "statm", "cgroup", "mountinfo", "comm", "limits"} {
		if _, err := os.ReadFile(dir + safe); err != nil {
			t.Error(err)
		}
	}
	for _, safe := range []string{"fd", "task"} {
		if _, err := os.ReadDir(dir + safe); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"ns/mnt", "exe", "root"} {
		if link, err := Link(pid, name); !errors.Is(err, ErrExecutes) || !IsUntold(err) {
			t.Errorf("%s: %q, %v", name, link, err)
		}
	}
	if SharesUsers(pid) {
		t.Error("its user namespace is known")
	}

	// One that gives no answer, though the process that it is said to be about executes nothing,
	// costs the limit of time once.
	hanging := func() (string, error) { return os.Readlink(dir + "ns/mnt") }
	if answers(hanging) {
		hanging = func() (string, error) { return "", kcmp(os.Getpid(), pid) } // before Linux 6.18
	}
	self := os.Getpid()
	began := time.Now()
	if _, err := Ask(self, hanging); !errors.Is(err, ErrHangs) || time.Since(began) < AskTime {
		t.Errorf("asked for the first time: %v, after %v", err, time.Since(began))
	}
	began = time.Now()
	for range 100 {
		if _, err := Link(self, "ns/mnt"); !errors.Is(err, ErrHangs) {
			t.Errorf("asked again: %v", err)
		}
	}
	if took := time.Since(began); took >= AskTime {
		t.Errorf("asked again: took %v", took)
	}
	other := os.Getppid()
	if _, err := Link(other, "ns/mnt"); err != nil {
		t.Errorf("another process: %v", err)
	}

	f.Answer()
	for _, asked := range []int{self, pid} {
		eventually(t, fmt.Sprintf("process %d can be asked about", asked), func() bool {
			link, err := Link(asked, "ns/mnt")
			return err == nil && link != ""
		})
	}
	if !SharesUsers(pid) {
		t.Error("its user namespace is not ours")
	}
}

// answers tells whether a question has an answer soon.
func answers(question func() (string, error)) bool {
	done := make(chan bool)
	go func() { _, _ = question(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(100 * time.Millisecond):
		return false
	}
}

func kcmp(a, b int) error {
	const file = 0 // linux/kcmp.h
	_, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), file, 0, 0, 0)
	return os.NewSyscallError("kcmp", errno)
}

// Questions about one process that have answers wait for each other, and all are answered.
func TestAskAtOnce(t *testing.T) {
	const all = 20
	errs := make(chan error, all)
	under := make(chan bool, all)
	for range all {
		go func() {
			atOnce, err := Ask(os.Getpid(), func() (int, error) {
				under <- true
				defer func() { <-under }()
				time.Sleep(time.Millisecond)
				return len(under), nil
			})
			if atOnce > 1 {
				err = fmt.Errorf("%d at a time", atOnce)
			}
			errs <- err
		}()
	}
	for range all {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestAskOfNobody(t *testing.T) {
	if _, err := Link(1<<22+1, "exe"); !errors.Is(err, fs.ErrNotExist) || IsUntold(err) {
		t.Errorf("no process: %v", err)
	}
	want := errors.New("of the question")
	if _, err := Ask(os.Getpid(), func() (bool, error) { return false, want }); err != want {
		t.Errorf("%v, want %v", err, want)
	}
	thread := 2 // kthreadd; in a PID namespace of our own, anybody
	if err := Executes(thread); errors.Is(err, ErrExecutes) {
		t.Errorf("process %d: %v", thread, err)
	}
}

func TestStatus(t *testing.T) {
	s := ParseStatus("State:\tD (disk sleep)\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n")
	if mask, err := s.Mask("SigPnd"); mask != 0x100 || err != nil {
		t.Errorf("SigPnd: %#x, %v", mask, err)
	}
	if _, err := s.Mask("SigBlk"); err == nil {
		t.Error("what is not there has no error")
	}
	for line, want := range map[string]struct{ killed, ended bool }{
		"":                          {true, false},
		"SigPnd:\t0000000000000000": {false, false},
		"SigPnd:\t0000000000000200": {false, false},
		"SigPnd:\t":                 {false, false},
		"State:\tZ (zombie)":        {true, true},
		"State:\tX (dead)":          {true, true},
	} {
		s := ParseStatus("State:\tD (disk sleep)\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n" + line)
		if s.Killed() != want.killed || s.Ended() != want.ended {
			t.Errorf("%q: %v, %v, want %+v", line, s.Killed(), s.Ended(), want)
		}
	}
	s = ParseStatus("SigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n")
	if !s.Killed() {
		t.Error("a signal to the process does not count")
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("never: %s", what)
		}
	}
}
