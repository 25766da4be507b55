package proc

import (
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// CloseOnExec marks every descriptor above 2, also inherited ones that this process does not
// know of, to be closed at execve(2).
func CloseOnExec() error {
	// Linux 5.11
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// StartSelf executes this process's own binary, also when another version is installed by now: in
// new namespaces, in a session of its own, in /, with /dev/null on descriptors 0 to 2, the files
// after them, and nothing else of ours. In particular it does not hold the pipe that the kubelet
// reads to its end.
func StartSelf(env []string, namespaces uintptr, args []string, files ...*os.File) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if err := CloseOnExec(); err != nil {
		return nil, err
	}
	return os.StartProcess("/proc/self/exe", append([]string{os.Args[0]}, args...), &os.ProcAttr{
		Dir: "/", Env: env, Files: append([]*os.File{null, null, null}, files...),
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces},
	})
}
