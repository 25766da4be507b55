package confine

import (
	"bytes"
	"hash/crc32"
	"unsafe"

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

// AsCalledByNobody calls a function on a thread that does not pass on the caller's scheduling to
// the processes that it starts: they would keep it for as long as the node lives. What the kernel
// refuses to change without CAP_SYS_NICE stays: the daemon serves all the same.
func AsCalledByNobody(start func() error) error {
	return proc.OnThread(func() error {
		scheduleAsUsual()
		return start()
	})
}

// scheduleAsUsual gives the calling thread the default policy and priorities (sched(7),
// ioprio_set(2)), and all processors of its cgroup.
func scheduleAsUsual() {
	usual := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	_ = unix.SchedSetAttr(0, &usual, 0) // nice 0 as well
	const who, itself, byNice = 1, 0, 0 // IOPRIO_WHO_PROCESS, IOPRIO_CLASS_NONE
	_, _, _ = unix.RawSyscall(unix.SYS_IOPRIO_SET, who, itself, byNice)
	all := bytes.Repeat([]byte{0xff}, 1024) // a bit for each processor, more than Linux can have
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, itself, uintptr(len(all)), uintptr(unsafe.Pointer(&all[0])))
}
