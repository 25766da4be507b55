package confine

import (
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

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
