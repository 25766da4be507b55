package main_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A container with CAP_SETUID, which is a default, can be of the daemon's user. What the
// kernel counts for a user is counted for both then.

const (
	sameUser = "SAME_USER"
	realTime = 40 // a signal that is queued as often as it is sent
)

// init is what the test binary does as the daemon's user: to take what is asked for, say
// so, and wait for the end of its standard input.
func init() {
	meanwhile := func() {}
	switch os.Getenv(sameUser) {
	case "":
		return
	case "waits": // until it is told which user it is
		fmt.Println("ready")
		var uid int
		if _, err := fmt.Scanln(&uid); err != nil {
			os.Exit(0)
		}
		if err := errors.Join(syscall.Setresgid(daemonGID, daemonGID, daemonGID), syscall.Setresuid(uid, uid, uid)); err != nil {
			fmt.Println(err)
		}
	case "reaches newborn processes":
		var reached sync.Map
		end := eachNewborn(func(pid int) {
			for _, path := range []string{"root", "fd/3"} {
				if leadsTo, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, path)); err == nil {
					reached.LoadOrStore(fmt.Sprintf("%s of process %d, which is %s", path, pid, leadsTo), true)
				}
			}
		})
		meanwhile = func() {
			end()
			reached.Range(func(what, _ any) bool { fmt.Println(what); return true })
		}
	case "stops newborn processes":
		var stopped sync.Map
		end := eachNewborn(func(pid int) {
			if unix.Kill(pid, unix.SIGSTOP) == nil {
				stopped.Store(pid, true)
			}
		})
		meanwhile = func() {
			end()
			stopped.Range(func(pid, _ any) bool { _ = unix.Kill(pid.(int), unix.SIGCONT); fmt.Println(pid); return true })
		}
	case "threads":
		var all sync.WaitGroup
		for range 1030 {
			all.Add(1)
			go func() { runtime.LockOSThread(); all.Done(); select {} }()
		}
		all.Wait()
	case "descriptors in flight":
		for range 30 {
			pair := must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0))
			for range 10 {
				if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(0), nil, unix.MSG_DONTWAIT); err != nil {
					fmt.Println(err)
				}
			}
		}
	case "queued signals":
		runtime.LockOSThread()
		blocked := unix.Sigset_t{Val: [16]uint64{1 << (realTime - 1)}}
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, nil); err != nil {
			fmt.Println(err)
		}
		info := struct {
			signo, errno, code int32
			rest               [116]byte
		}{signo: realTime, code: -1} // SI_QUEUE
		var errno unix.Errno
		for errno == 0 {
			_, _, errno = unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(os.Getpid()), uintptr(unix.Gettid()), realTime, uintptr(unsafe.Pointer(&info)), 0, 0)
		}
		if errno != unix.EAGAIN {
			fmt.Println("queue a signal:", errno)
		}
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	meanwhile()
	os.Exit(0)
}

// eachNewborn calls a function for each process that was not there when it was called, again and
// again: it finds a process within microseconds. end ends that.
func eachNewborn(f func(pid int)) (end func()) {
	const most, near = 1 << 15, 8
	exists := func(number int) bool {
		_, _, errno := unix.RawSyscall(unix.SYS_KILL, uintptr(number), 0, 0)
		return errno != unix.ESRCH
	}
	leads := func(number int) bool { // a process, and not a thread only
		_, _, errno := unix.RawSyscall(unix.SYS_TGKILL, uintptr(number), uintptr(number), 0)
		return errno != unix.ESRCH
	}
	last := 0
	for number := 1; number < most; number++ {
		if exists(number) {
			last = number
		}
	}
	var ends atomic.Bool
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for newborn := []int(nil); !ends.Load(); {
			newborn = slices.DeleteFunc(newborn, func(pid int) bool { return !exists(pid) })
			for _, pid := range newborn {
				f(pid)
			}
			for number := last + 1; number <= last+near; number++ {
				if exists(number) {
					last = number
					if leads(number) {
						newborn = append(newborn, number)
						f(number)
					}
				}
			}
		}
	}()
	return func() { ends.Store(true); <-ended }
}

func TestNobodyOfTheDaemonsUserCanTakeWhatItNeeds(t *testing.T) {
	for _, what := range []string{"threads", "descriptors in flight", "queued signals"} {
		t.Run(what, func(t *testing.T) {
			if what == "queued signals" {
				limitQueuedSignals(t, 1000)
			}
			d := install(t)
			dir := d.mount()
			d.pair()
			asUser(t, d.user(), what, true)
			active, _ := d.pair()
			kill(t, active)
			d.pair() // there is a standby again
			d.replaceBinary(newer)
			if output, err := d.command("upgrade").CombinedOutput(); err != nil {
				t.Errorf("upgrade: %v: %s", err, output)
			}
			active, _ = d.pair()
			kill(t, active)
			d.pair()
			if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
				t.Errorf("%q", got)
			}
		})
	}
}

// limitQueuedSignals lowers the limit of whom this process starts, pod and call-out. A test
// without CAP_SYS_RESOURCE could not lift the hard limit over that of the pod.
func limitQueuedSignals(t *testing.T, count uint64) {
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_SIGPENDING, nil, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_SIGPENDING, &unix.Rlimit{Cur: count, Max: limit.Max}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prlimit(0, unix.RLIMIT_SIGPENDING, &limit, nil) })
}
