package survive_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

const (
	sameUser = "SAME_USER"
	// sameUserRunDir is the variable with the path of the run directory. No container has that
	// directory.
	sameUserRunDir = "SAME_USER_RUN_DIR"
	realTime       = 40 // a signal that is queued as often as it is sent
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
		if err := errors.Join(syscall.Setresgid(testnode.DaemonGID, testnode.DaemonGID, testnode.DaemonGID), syscall.Setresuid(uid, uid, uid)); err != nil {
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
	case "reaches the pair":
		meanwhile = func() {
			text, err := os.ReadFile("/proc/sys/kernel/pid_max")
			most := 0
			if _, scanErr := fmt.Sscan(string(text), &most); err != nil || scanErr != nil {
				fmt.Println("pid_max:", err, scanErr)
			}
			for pid := 1; pid < most; pid++ {
				if pid != os.Getpid() {
					reach(pid)
				}
			}
			for _, name := range []string{"control", "daemon.lock", "counters", "crash"} {
				path := filepath.Join(os.Getenv(sameUserRunDir), name)
				if file, err := os.OpenFile(path, unix.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
					fmt.Println("opened", file.Name())
				}
				if conn, err := net.Dial("unixpacket", path); err == nil {
					fmt.Println("connected to", conn.RemoteAddr())
				}
			}
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
			pair := testnode.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0))
			for range 10 {
				if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(0), nil, unix.MSG_DONTWAIT); err != nil {
					fmt.Println(err)
				}
			}
		}
	case "watches of epoll":
		var watched []int
		for range 150 {
			watched = append(watched, testnode.Must(unix.Eventfd(0, unix.EFD_CLOEXEC)))
		}
		var err error
		for err == nil {
			poller := testnode.Must(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
			for _, fd := range watched {
				if err == nil {
					err = unix.EpollCtl(poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN})
				}
			}
		}
		if err != unix.ENOSPC {
			fmt.Println("watch:", err)
		}
	case "instances of inotify":
		var err error
		for err == nil {
			_, err = unix.InotifyInit1(unix.IN_CLOEXEC)
		}
		if err != unix.EMFILE {
			fmt.Println("inotify:", err)
		}
	case "pages of pipes":
		var err error
		for err == nil {
			var pipe [2]int
			if err = unix.Pipe2(pipe[:], unix.O_CLOEXEC); err == nil {
				_, err = unix.FcntlInt(uintptr(pipe[0]), unix.F_SETPIPE_SZ, 1<<20)
			}
		}
		if err != unix.EPERM {
			fmt.Println("pipe:", err)
		}
	case "locked memory":
		var err error
		for err == nil {
			var memory []byte
			if memory, err = unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE); err == nil {
				err = unix.Mlock(memory)
			}
		}
		if err != unix.ENOMEM {
			fmt.Println("lock memory:", err)
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

// reach takes what a process has open: its links, the connection, the control socket.
func reach(pid int) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it is a thread, or nobody
	}
	defer unix.Close(process)
	if unix.PtraceSeize(pid) == nil {
		fmt.Println("traces process", pid)
	}
	for fd := range 32 {
		if _, err := unix.PidfdGetfd(process, fd, 0); err == nil {
			fmt.Printf("has descriptor %d of process %d\n", fd, pid)
		}
	}
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

// With hostPID, a pod sees which user the daemon is. It has used up what the kernel limits, when
// the active process dies.
func TestNobodyOfTheDaemonsUserCanTakeWhatItNeeds(t *testing.T) {
	for _, row := range []struct {
		what      string
		noStandby bool // none can be started meanwhile
	}{
		{what: "threads"}, {what: "descriptors in flight"}, {what: "queued signals"}, {what: "instances of inotify"},
		{what: "pages of pipes"}, {what: "locked memory"}, {what: "watches of epoll", noStandby: true},
	} {
		t.Run(row.what, func(t *testing.T) {
			switch row.what {
			case "queued signals":
				limitQueuedSignals(t, 1000)
			case "watches of epoll":
				limitWatches(t, 20000)
			}
			d := testnode.Install(t)
			dir := d.Mount()
			d.Pair()
			pod := asUser(t, d.User(), row.what, true)
			serves := func(when string, before int) {
				t.Helper()
				if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
					t.Errorf("%s: %q", when, got)
				}
				s := d.Status().Daemon
				if s.Active == nil || s.Active.PID == before || s.Error != "" {
					t.Errorf("%s: status tells of %+v", when, s)
				}
				if !row.noStandby {
					d.Pair()
				}
			}
			reads := readAtTimes(t, dir)
			active, standby := d.Pair()
			testnode.Kill(t, active)
			reads.goesOn()
			serves("after a death", active)
			d.ReplaceBinary(testnode.Newer)
			if output, err := d.Command("upgrade").CombinedOutput(); err != nil {
				t.Errorf("upgrade: %v: %s", err, output)
			}
			serves("after an upgrade", standby)
			reads.goesOn()
			if row.noStandby {
				stops(pod) // and what it has used up can be used again
				testnode.Eventually(t, "there is a standby", func() bool { return d.Status().Daemon.Standby != nil })
			}
			active, _ = d.Pair()
			testnode.Kill(t, active)
			reads.goesOn()
			reads.stop()
			serves("after another death", active)
		})
	}
}

// limitWatches lowers the limit of watches for every user of this machine, also of root, who uses
// few.
func limitWatches(t *testing.T, count int) {
	const path = "/proc/sys/fs/epoll/max_user_watches"
	// Another run of this test would take the lower limit for the one to put back.
	one, err := os.Open("/dev/fuse")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close() })
	if err := unix.Flock(int(one.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	before := testnode.Read(t, path)
	t.Cleanup(func() { testnode.Write(t, path, before) })
	testnode.Write(t, path, fmt.Sprintln(count))
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
