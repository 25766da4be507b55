package confine

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onDenial is the answer to a system call that is denied. A test build ends the process, so
// that no denial goes unseen.
var onDenial uint32 = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)

// ToMounting leaves to this process, which may be root's, the system calls of one that mounts for
// others, and to all that it starts. They must not call it again: filters pile up.
func ToMounting() error { return install(filterForMounting) }

// install installs a filter that genfilter made for this architecture, in all threads.
func install(filter []unix.SockFilter) error {
	program := slices.Clone(filter)
	if len(program) == 0 {
		return errors.New("there is no filter for " + runtime.GOARCH)
	}
	program[len(program)-1].K = onDenial // genfilter ends it with the answer to denied calls
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return os.NewSyscallError("install the filter", errno)
	}
	return nil
}
