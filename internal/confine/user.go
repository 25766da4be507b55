package confine

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// User is the user and the group that a driver's daemon runs as.
type User struct{ UID, GID uint32 }

// GroupOf is the group of a program's daemon: one of 2^25, so that two programs can hardly have
// the same, and read what is the other's. No account may have it. A program's group never changes:
// a daemon could not read what root has made for the version before.
func GroupOf(program string) uint32 {
	const groups, first = 1 << 25, 23_180_208 // of the program that was there first
	return 4_200_000_001 + 2*((crc32.ChecksumIEEE([]byte(program))-first)%groups)
}

// The users that daemons have. No account has one of these: they are above what Kubernetes takes
// for a pod (2^31-1, k8s.io/apimachinery, IsValidUserID), and below the two that mean "nobody".
const (
	firstUser = 4_200_000_001
	lastUser  = 1<<32 - 3
)

// NoUser is no process's user. The kernel takes it for "no change".
const NoUser = 1<<32 - 1

// RandomUser is the user of a daemon that is about to be started. A process in a pod that has
// CAP_SETUID, which containers have by default, can become any user; the kernel then lets it
// signal that user's processes, and use up what is limited for each user. So nobody who does not
// see the daemon's processes shall know which one it is.
func RandomUser() (uint32, error) {
	var random [8]byte
	// Not by crypto/rand, which costs every call-out some time at its start. The kernel gives up to
	// 256 bytes at once (man 2 getrandom).
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return 0, os.NewSyscallError("getrandom", err)
	}
	return uint32(firstUser + binary.NativeEndian.Uint64(random[:])%(lastUser-firstUser+1)), nil
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
