package mounter

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/confine"
)

// rights are the capabilities of a mounter, and what its children can get. With them it is the
// equal of root all the same: who can mount can become anything.
var rights = []uint{
	unix.CAP_SYS_ADMIN,       // mount, enter namespaces, abort a connection
	unix.CAP_SYS_CHROOT,      // enter a mount namespace
	unix.CAP_SYS_PTRACE,      // see which files other users' processes have open, and take a connection (recover.go)
	unix.CAP_DAC_READ_SEARCH, // walk through other users' directories
}

// restrict gives up all other capabilities, in all threads, and the system calls that it does not need:
// EPERM for these. Its children have no more than it has. Landlock would forbid mounting.
func restrict(log calllog.Log) error {
	var mask uint64
	for _, right := range rights {
		mask |= 1 << right
	}
	for right := uint(0); right < 64; right++ {
		there, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(right), 0, 0, 0)
		if err != nil {
			break // the kernel knows no more
		}
		if there == 1 && mask&(1<<right) == 0 {
			if err := inAll(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(right)); err != nil {
				return fmt.Errorf("drop capability %d: %w", right, err)
			}
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	sets := [2]unix.CapUserData{}
	for i := range sets {
		part := uint32(mask >> (32 * i))
		sets[i] = unix.CapUserData{Effective: part, Permitted: part}
	}
	err := inAll(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])))
	runtime.KeepAlive(&header)
	runtime.KeepAlive(&sets)
	if err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := confine.ToMounting(); err != nil { // of a kernel that has none
		log.Line("it goes on with less confinement: seccomp: %v", err)
	}
	return nil
}

// inAll makes a system call in every thread of the process.
func inAll(number, a, b uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(number, a, b, 0, 0, 0, 0)
	if errno == unix.ENOTSUP {
		return errors.New("the binary must be built with CGO_ENABLED=0")
	} else if errno != 0 {
		return errno
	}
	return nil
}
