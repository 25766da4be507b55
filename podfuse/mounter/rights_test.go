package mounter

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/attack"
)

// attackOf has a mounter that begins, and a child that enters a container, try what they
// must not, also with a process, and write to a file how that has ended.
func attackOf(given string) {
	path, victim, is := strings.Cut(given, " ")
	if !is {
		return
	}
	pid, _ := strconv.Atoi(victim)
	try := func(who string) {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return
		}
		defer file.Close()
		for _, a := range attack.ByCall(pid) {
			if a.Name == "take another process's descriptor" {
				continue // a child does, of a program whose mounter was lost
			}
			fmt.Fprintf(file, "%s: %s: %v\n", who, a.Name, a.Try())
		}
	}
	environment = append(environment, "ATTACK="+given)
	own := errands["own"]
	errands["own"] = func(j job) (result, error) { try("child"); return own(j) }
	pause = func(step string) {
		if step == "begin" {
			try("mounter")
		}
	}
}

// What the attacks do where no filter is in force is shown in e2e/attack.
func TestOtherSystemCallsAreDenied(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "attacks")
	must(t, os.WriteFile(path, nil, 0o600))
	w := newWorld(t, fmt.Sprintf("ATTACK=%s %d", path, os.Getpid()))
	c := w.container(containerOptions{})
	c.serve(launchOptions{Mountpoint: "/m"})
	status, err := w.client.Status()
	must(t, err)
	for range 2 { // a spare has the filter once, also that of another
		must(t, unix.Kill(status.PID, unix.SIGKILL))
		last := status.PID
		status = w.status("the next mounter, and a spare", func(s Status) bool { return s.PID != last && s.Spare != 0 })
	}
	for _, pid := range []int{status.PID, status.Spare} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !strings.Contains(string(text), "\nSeccomp:\t2\nSeccomp_filters:\t1\n") {
			t.Errorf("process %d: %s, %v", pid, text, err)
		}
	}
	text, err := os.ReadFile(path)
	must(t, err)
	tried := map[string]int{}
	for line := range strings.Lines(string(text)) {
		who, _, _ := strings.Cut(line, ":")
		tried[who]++
		if !strings.HasSuffix(line, ": operation not permitted\n") {
			t.Error(line)
		}
	}
	if tried["child"] < 15 || tried["mounter"] < 3*15 {
		t.Errorf("tried: %v", tried)
	}
}

// The kernel counts queued signals for the user, and root of a pod is the same as the mounter's. A
// mounter begins although no more can be queued.
func TestAPodThatQueuesSignals(t *testing.T) {
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_SIGPENDING, &limit))
	few := unix.Rlimit{Cur: 100, Max: limit.Max} // and not as many as a pod may queue
	must(t, unix.Setrlimit(unix.RLIMIT_SIGPENDING, &few))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_SIGPENDING, &limit)) }()
	full, over := make(chan error), make(chan struct{})
	defer close(over)
	go func() {
		runtime.LockOSThread() // never unlocked: what is queued for the thread ends with it
		const last = 64        // of the signals that are queued each time
		var mask unix.Sigset_t
		mask.Val[0] = 1 << (last - 1)
		err := unix.PthreadSigmask(unix.SIG_BLOCK, &mask, nil)
		for err == nil {
			err = unix.Tgkill(os.Getpid(), unix.Gettid(), last)
		}
		full <- err
		<-over
	}()
	if err := <-full; err != unix.EAGAIN {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.container(containerOptions{}).serve(launchOptions{})
}
