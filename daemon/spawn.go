package daemon

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Verb is the subcommand that runs Main. It is not for people.
const Verb = "serve"

// The descriptors of a process of the pair; the package comment says what they
// are.
const (
	deviceFD = 3 + iota
	linkFD
	lockFD
	controlFD
)

// Resources are what a process of the pair needs beside its link.
type Resources struct {
	Device  int // of /dev/fuse, non-blocking
	Lock    *os.File
	Control *os.File // listens
}

// spawn executes this process's own binary as a process of the pair: in a
// session of its own, in /, with /dev/null on descriptors 0 to 2 and nothing
// else of ours. In particular it must not hold the pipe that the kubelet reads to
// its end. The binary is the one that is executing, whatever is installed by now.
func spawn(driver string, r Resources, end *os.File) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if err := closeOnExec(); err != nil {
		return nil, err
	}
	// A duplicate, because reading the number of an os.File would make the
	// device blocking, for all who share it.
	fd, err := unix.FcntlInt(uintptr(r.Device), unix.F_DUPFD_CLOEXEC, controlFD+1)
	if err != nil {
		return nil, os.NewSyscallError("duplicate /dev/fuse", err)
	}
	device := os.NewFile(uintptr(fd), "/dev/fuse")
	defer device.Close()
	return os.StartProcess("/proc/self/exe", []string{os.Args[0], Verb, "--driver", driver}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{}, // the kubelet's may hold secrets
		Files: []*os.File{null, null, null, deviceFD: device, linkFD: end, lockFD: r.Lock, controlFD: r.Control},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// closeOnExec marks every descriptor above 2, also those that this process was
// given without its knowledge.
func closeOnExec() error {
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
