package main_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
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
	switch os.Getenv(sameUser) {
	case "":
		return
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
	os.Exit(0)
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
			pod := exec.Command("/proc/self/exe")
			pod.Env = append(os.Environ(), sameUser+"="+what)
			pod.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: daemonUID, Gid: 65534}}
			started(t, pod)
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
