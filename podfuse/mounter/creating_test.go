package mounter

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// Of who waits in mkdir(2), the name is told; of who runs, that it may be about to make one; and of who waits
// for anything else, nothing.
func TestWhoMakesNames(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	stop(t, c.programs("program")...)
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	var ended atomic.Bool
	defer func() {
		ended.Store(true)
		unix.Close(pipe[1])
		must(t, w.client.Forget(w.data.ID()))
	}()
	thread := func(do func()) uint32 {
		number := make(chan int)
		go func() {
			runtime.LockOSThread()
			number <- unix.Gettid()
			do()
		}()
		return uint32(<-number)
	}
	maker := thread(func() { _ = unix.Mkdir(fmt.Sprintf("/proc/%d/root/data/new", c.pid), 0o700) })
	walker := thread(func() {
		var stat unix.Stat_t
		_ = unix.Stat(fmt.Sprintf("/proc/%d/root/data/old", c.pid), &stat)
	})
	sleeper := thread(func() { _, _ = unix.Read(pipe[0], make([]byte, 1)) })
	runner := thread(func() {
		for !ended.Load() {
		}
	})
	own, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		done := namesIn(t, own, append(c.programs("program"), os.Getpid(), c.pid))
		tells := func(thread uint32) bool { return slices.Contains(done.Threads, thread) }
		if len(done.Names) == 1 && string(done.Names[0]) == "new" && tells(maker) && tells(runner) && !tells(walker) && !tells(sleeper) && done.All {
			return
		}
		if time.Since(began) > hang {
			t.Fatalf("%q, threads %d, all: %v; want new, %d, %d, not %d, %d", done.Names, done.Threads, done.All, maker, runner, walker, sleeper)
		}
	}
}

// namesIn is what is told of a namespace, if there are no other processes than these. Others on this machine may hang, of
// whom nobody can tell.
func namesIn(t *testing.T, namespace string, pids []int) (done result) {
	t.Helper()
	makers, done := makersIn(placesOf(pids), []string{namespace})
	named, err := namesMade(job{Makers: makers})
	must(t, err)
	done.Names, done.All = named.Names, done.All && named.All
	return done
}

// A process of any pod whose first thread has ended does not keep others' threads from being told apart.
func TestNamesBesideOneWhoseFirstThreadHasEnded(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	c.serve(launchOptions{Text: "one", Mode: "first"})
	var program int
	w.status("the program is found", func(s Status) bool {
		program = s.Volumes[0].PID
		return program != 0
	})
	eventually(t, "its first thread has ended", func() bool {
		status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", program))
		return err == nil && status.Ended()
	})
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", c.pid))
	must(t, err)
	if is := placesOf([]int{program})[0]; is.namespace != theirs || is.err != nil {
		t.Errorf("it is in %q, %v, and not in %s", is.namespace, is.err, theirs)
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	eventually(t, "all others wait for something else", func() bool {
		return namesIn(t, own, []int{os.Getpid(), c.pid, program}).All
	})
	must(t, unix.Kill(program, unix.SIGKILL))
}

// Who has no descriptor to look with does not say that it knows all.
func TestNamesWithoutDescriptors(t *testing.T) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	tells := func() bool {
		_, done := makersIn(placesOf([]int{os.Getpid()}), []string{own})
		return done.All
	}
	if !tells() {
		t.Error("with descriptors, it does not know all")
	}
	var had unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &had))
	none := had
	none.Cur = 0
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	all := tells()
	_, _, pidsErr := cgroup{}.processes()
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &had))
	if all || pidsErr == nil {
		t.Errorf("it says that it knows all: %v, and lists processes: %v", all, pidsErr)
	}
}
