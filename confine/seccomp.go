package confine

import (
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterSystemCalls installs the filter that genfilter made for this architecture,
// in all threads.
func filterSystemCalls() error {
	if len(filter) == 0 {
		return errors.New("there is no filter for " + runtime.GOARCH)
	}
	program := denyWith(filter, onDenial)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return os.NewSyscallError("install the filter", errno)
	}
	return nil
}

// denyWith returns the program with another answer to what it denies, which is its
// last instruction.
func denyWith(program []unix.SockFilter, answer uint32) []unix.SockFilter {
	program = append([]unix.SockFilter{}, program...)
	program[len(program)-1].K = answer
	return program
}
