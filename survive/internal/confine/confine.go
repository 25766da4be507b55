package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rules say which files a confined process may read.
type Rules struct {
	Read []string // files, and directories with all in them
}

// Enter confines this process with all its threads, for good. problems name the measures that
// this kernel lacks. An error is a measure that every kernel has: the process must not go on.
func Enter(program string, rules Rules) (problems []string, err error) {
	if os.Geteuid() == 0 || os.Getegid() == 0 {
		return nil, errors.New("confine the daemon: it runs as root; it must be started as a user of its own")
	}
	if err := Repeat(program); err != nil {
		return nil, err
	}
	if err := limit(); err != nil {
		return nil, err
	}
	if err := dropCapabilities(); err != nil {
		return nil, fmt.Errorf("confine the daemon: capset: %w", err)
	}
	if err := allThreads(unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return nil, fmt.Errorf("confine the daemon: no_new_privs: %w", err)
	}
	if err := restrictFiles(rules); err != nil {
		problems = append(problems, fmt.Sprintf("Landlock: %v", err))
	}
	if err := filterSystemCalls(); err != nil {
		problems = append(problems, fmt.Sprintf("seccomp: %v", err))
	}
	return problems, nil
}

// Repeat confines a process that a confined one started. execve(2) makes it dumpable, and
// names it after /proc/self/exe; its name shall be the program's.
func Repeat(program string) error {
	name, err := unix.BytePtrFromString(program)
	if err != nil {
		return err
	}
	// Of each thread, because ps shows that of the first, and this may be another.
	err = allThreads(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)))
	runtime.KeepAlive(name)
	if err != nil {
		return fmt.Errorf("name the daemon: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("confine the daemon: not dumpable: %w", err)
	}
	return nil
}

// allThreads is prctl(2), which concerns one thread only, on each of them.
func allThreads(option int, value uintptr) error {
	return inAll(unix.SYS_PRCTL, uintptr(option), value)
}

// dropCapabilities empties the sets that execve(2) as another user left as they
// were: the inheritable one, and with it the ambient one (capabilities(7)).
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	err := inAll(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])))
	runtime.KeepAlive(&header)
	runtime.KeepAlive(&none)
	return err
}

// inAll makes a system call in every thread of the process.
func inAll(number, a, b uintptr) error {
	// Without cgo, the runtime knows all threads. With it, this is ENOTSUP.
	_, _, errno := syscall.AllThreadsSyscall6(number, a, b, 0, 0, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.ENOTSUP:
		return fmt.Errorf("%w: the binary must be built with CGO_ENABLED=0", errno)
	}
	return errno
}
