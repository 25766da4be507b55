// Package proc reads the status of a process, asks the kernel about processes without hanging with
// them, and runs functions on threads of their own, which may change their namespace or user.
package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Status has the lines of /proc/PID/status, by their names (man 5 proc_pid_status).
type Status map[string]string

// StatusIn reads the file status in a process's directory, such as /proc/1.
func StatusIn(dir string) (Status, error) {
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return nil, err
	}
	return ParseStatus(string(text)), nil
}

// ParseStatus reads the content of the file. Values are without white space around them.
func ParseStatus(text string) Status {
	s := Status{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		s[name] = strings.TrimSpace(value)
	}
	return s
}

// NSpid are the numbers that the process has in PID namespaces, from that of the /proc which was
// read to its own.
func (s Status) NSpid() []string { return strings.Fields(s["NSpid"]) }

// Mask is a line that is a set, of signals or of capabilities: bit n-1 is signal n, bit n
// capability n.
func (s Status) Mask(name string) (uint64, error) {
	mask, err := strconv.ParseUint(s[name], 16, 64)
	if err != nil {
		err = fmt.Errorf("%s of a status: %w", name, err)
	}
	return mask, err
}

// Ended tells of a thread whether it has ended, and only waits to be waited for.
func (s Status) Ended() bool {
	return strings.HasPrefix(s["State"], "Z") || strings.HasPrefix(s["State"], "X")
}

// Killed tells of a thread whether SIGKILL waits for it: nothing but what it does in the kernel
// keeps it.
func (s Status) Killed() bool {
	own, ownErr := s.Mask("SigPnd")
	shared, sharedErr := s.Mask("ShdPnd")
	return ownErr == nil && sharedErr == nil && (own|shared)&(1<<(unix.SIGKILL-1)) != 0
}

// IsEnding tells whether a process was killed and has not ended: it has threads, and SIGKILL waits
// for each. One of them may wait in the kernel for ever, for an answer of its own process. It does
// not end if only some of its threads do: execve(2) kills all but the one that calls it.
func IsEnding(pid int) bool {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	threads, _ := os.ReadDir(tasks)
	ending := false
	for _, thread := range threads {
		status, err := StatusIn(tasks + "/" + thread.Name())
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || err == nil && status.Ended() {
			continue
		}
		_, runs := status["VmSize"] // one that exits has no memory any more
		if err != nil || runs && !status.Killed() {
			return false
		}
		ending = true
	}
	return ending
}

// harmless are the signals whose default action ends nothing (man 7 signal).
const harmless uint64 = 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGCONT-1) | 1<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) |
	1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1) | 1<<(unix.SIGURG-1) | 1<<(unix.SIGWINCH-1)

// IsKilled tells whether a signal waits for a thread that is to end it: SIGKILL, as the kernel
// makes of most (kernel/signal.c, complete_signal), or one that dumps core, or came after another
// one. A thread of which nothing is known counts as one.
func IsKilled(thread uint32) bool {
	status, err := StatusIn(fmt.Sprintf("/proc/%d", thread))
	if thread == 0 || err != nil {
		return true
	}
	set := func(name string) uint64 {
		mask, parseErr := status.Mask(name)
		err = errors.Join(err, parseErr)
		return mask
	}
	deadly := (set("SigPnd") | set("ShdPnd")) &^ (set("SigBlk") | set("SigIgn") | set("SigCgt") | harmless)
	return deadly != 0 || err != nil
}

// UntilKilled is how long to wait before it is looked again whether a thread is killed, of so many
// that wait: at most ten thousand looks a second.
func UntilKilled(waiting int) time.Duration {
	return max(100*time.Millisecond, time.Duration(waiting)*100*time.Microsecond)
}

// SharesUsers tells whether a process is in our user namespace. In one of its own, anybody
// can be any user, and has all capabilities. Of one that cannot be asked about, it says no.
func SharesUsers(pid int) bool {
	ours, oursErr := os.Readlink("/proc/self/ns/user")
	theirs, err := Link(pid, "ns/user")
	return oursErr == nil && err == nil && theirs == ours
}

// OnThread is OnEndingThread with a root and working directory of the thread's own: setns(2)
// refuses a thread that shares them.
func OnThread(f func() error) error {
	return OnEndingThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		return f()
	})
}

// OnEndingThread calls a function on a thread that ends with it, and returns its error. It is never
// the process's first thread: Go does not end that one, and /proc/self and kill(2) take it for the
// process.
func OnEndingThread(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread is not used again
		if unix.Gettid() == unix.Getpid() {
			err = OnEndingThread(f) // on another thread, while this goroutine has the first one
			runtime.UnlockOSThread()
		} else {
			err = f()
		}
	}()
	<-done
	return err
}

// IsOnNode tells whether this process is in the node's mount namespace, that of process 1. Where
// the kernel refuses to tell, it is an error: such a process may not enter that namespace either.
func IsOnNode() (bool, error) {
	own, ownErr := os.Readlink("/proc/self/ns/mnt")
	first, err := os.Readlink("/proc/1/ns/mnt")
	return own == first, errors.Join(ownErr, err)
}

// OnNode calls a function on a thread in the node's namespaces, those of process 1 but for users
// and PIDs. Processes that it starts are in them, too. The thread's root directory becomes that of
// the mount namespace (man 2 setns), whatever process 1's own is.
//
// Call-outs mount, and start the daemon, there. So FlexVolume and CSI have one daemon, which tells
// the node's host name, outlives a kubelet's namespaces, and keeps none of a container's. A kubelet
// in another mount namespace sees the mounts if its directory is shared with the node's, or a
// slave.
func OnNode(f func() error) error {
	return OnThread(func() error {
		for _, kind := range []string{"mnt", "uts", "ipc", "net", "cgroup"} {
			if err := join(kind); err != nil {
				return fmt.Errorf("enter the host's namespaces: %w; the container must be privileged, with hostPID: true", err)
			}
		}
		return f()
	})
}

// join moves this thread into a namespace of process 1, if it is in another one: to enter a mount
// namespace also changes the root directory, which may be one that chroot(2) has gone to.
func join(kind string) error {
	path := "/proc/1/ns/" + kind
	wanted, err := os.Readlink(path)
	if err != nil {
		return err
	}
	if now, err := os.Readlink("/proc/thread-self/ns/" + kind); err != nil || now == wanted {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	return os.NewSyscallError("setns "+path, unix.Setns(fd, 0))
}
