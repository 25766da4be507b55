package confine

import (
	"hash/crc32"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// User is the user that a driver's daemon runs as. No account may have this user, nor the one with
// the next number; see [User.Signal].
type User struct{ UID, GID uint32 }

// DefaultUser is that of a program that has not chosen another one: one of 2^25, so that two
// programs can hardly have the same, and end or read what is the other's. A pod cannot ask for
// it: Kubernetes takes users up to 2^31-1 (k8s.io/apimachinery, IsValidUserID). But a
// process in a pod can become it, if it has CAP_SETUID, which containers have by default.
// So nothing of the daemon may depend on the kernel's counts for a user. It is not "nobody",
// which pods run as.
func DefaultUser(program string) User {
	const users, first = 1 << 25, 23_180_208 // of the program that was there first
	id := 4_200_000_001 + 2*((crc32.ChecksumIEEE([]byte(program))-first)%users)
	return User{id, id}
}

// Credential is for root to start the daemon with: no supplementary group remains, and
// execve(2) leaves no capability to a user that is not root.
func (u User) Credential() *syscall.Credential {
	return &syscall.Credential{Uid: u.UID, Gid: u.GID}
}

// Signal calls a function, which sends signals, on a thread of its own that reaches the
// user's processes and can do nothing else. The kernel asks whether the sender's effective
// or real user is the receiver's real or saved one (kernel/signal.c, kill_ok_by_cred). The
// thread is effectively this user, and really the next one. So the daemon's processes do
// not reach it, nor through it the process, which is root's.
func (u User) Signal(send func() error) error {
	return proc.OnThread(func() error {
		if err := u.become(); err != nil {
			return err
		}
		return send()
	})
}

func (u User) become() error {
	uid, gid, sender := uintptr(u.UID), uintptr(u.GID), uintptr(u.UID+1)
	// Of this thread only, unlike the functions of packages syscall and unix.
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS, 0, 0, 0},
		{unix.SYS_SETRESGID, gid, gid, gid},
		{unix.SYS_SETRESUID, sender, uid, sender},
	} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return os.NewSyscallError("become the daemon's user", errno)
		}
	}
	// To leave user 0 drops all capabilities, where securebits(7) do not say otherwise
	// (capabilities(7)).
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return os.NewSyscallError("drop all capabilities", unix.Capset(&header, &none[0]))
}

// AsCalledByNobody calls a function on a thread that does not pass on the caller's scheduling
// and limits to the processes that it starts: they would keep them for as long as the node
// lives. The CPU mask and the score of the OOM killer stay, and so does everything that the
// kernel refuses to change without CAP_SYS_NICE or CAP_SYS_RESOURCE: the daemon serves all
// the same.
func AsCalledByNobody(start func() error) error {
	noLimitsOfTheUser()
	return proc.OnThread(func() error {
		scheduleAsUsual()
		return start()
	})
}

// noLimitsOfTheUser lifts the limits that the kernel counts for the user, whom other
// processes may be, too: threads, and queued signals. Go makes a system call on all threads
// by a real-time signal, which is lost for ever where the queue is full (kernel/signal.c,
// __sigqueue_alloc). The limits are those of the whole process: a call-out, which is about to
// end.
func noLimitsOfTheUser() {
	for _, resource := range []int{unix.RLIMIT_NPROC, unix.RLIMIT_SIGPENDING} {
		var now unix.Rlimit
		forever := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		if unix.Prlimit(0, resource, &forever, nil) != nil && unix.Prlimit(0, resource, nil, &now) == nil {
			now.Cur = now.Max
			_ = unix.Prlimit(0, resource, &now, nil)
		}
	}
}

// scheduleAsUsual gives the calling thread the default policy and priorities (sched(7),
// ioprio_set(2)).
func scheduleAsUsual() {
	usual := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	_ = unix.SchedSetAttr(0, &usual, 0) // nice 0 as well
	const who, itself, byNice = 1, 0, 0 // IOPRIO_WHO_PROCESS, IOPRIO_CLASS_NONE
	_, _, _ = unix.RawSyscall(unix.SYS_IOPRIO_SET, who, itself, byNice)
}
