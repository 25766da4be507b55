package daemon

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/confine"
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
	logFD
)

// Resources are what a process of the pair needs beside its link.
type Resources struct {
	Device  int // of /dev/fuse, non-blocking
	Lock    *os.File
	Control *os.File // listens
	Log     *os.File // see calllog.Inherit
}

// start executes this process's own binary as the first process of a pair, or of
// a new version's: as the daemon's user, to confine itself.
func start(args []string, r Resources, end *os.File) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	// We may have been given descriptors without our knowledge.
	if err := closeOnExec(); err != nil {
		return nil, err
	}
	process, err := spawn(args, r, end, null, &syscall.SysProcAttr{Setsid: true, Credential: confine.Credential()})
	if errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("%w; user %d must be allowed to execute the binary: chmod 0755", err, confine.UID)
	}
	return process, err
}

// startStandby does the same in a process of the pair, whose confinement the new
// one inherits.
func startStandby(args []string, r Resources, end *os.File) (*os.Process, error) {
	return spawn(append(slices.Clone(args), confined), r, end, os.Stdin, &syscall.SysProcAttr{Setsid: true})
}

// confined is the argument of a process that inherits a confinement.
const confined = "--confined"

// environment bounds the runtime's threads, and the memory that it keeps for each
// of them, on nodes with many CPUs. The caller's environment is left out: the
// kubelet's may hold secrets.
var environment = []string{"GOMAXPROCS=" + strconv.Itoa(workers)}

// spawn executes this process's own binary as a process of the pair: in a
// session of its own, in /, with /dev/null on descriptors 0 to 2 and nothing
// else of ours. In particular it must not hold the pipe that the kubelet reads to
// its end. The binary is the one that is executing, whatever is installed by now.
func spawn(args []string, r Resources, end, null *os.File, attr *syscall.SysProcAttr) (*os.Process, error) {
	// A duplicate, because reading the number of an os.File would make the
	// device blocking, for all who share it.
	fd, err := unix.FcntlInt(uintptr(r.Device), unix.F_DUPFD_CLOEXEC, logFD+1)
	if err != nil {
		return nil, os.NewSyscallError("duplicate /dev/fuse", err)
	}
	device := os.NewFile(uintptr(fd), "/dev/fuse")
	defer device.Close()
	return os.StartProcess("/proc/self/exe", append([]string{os.Args[0], Verb}, args...), &os.ProcAttr{
		Dir: "/",
		Env: environment,
		Files: []*os.File{
			null, null, null,
			deviceFD: device, linkFD: end, lockFD: r.Lock, controlFD: r.Control, logFD: r.Log,
		},
		Sys: attr,
	})
}

// closeOnExec marks every descriptor above 2.
func closeOnExec() error {
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
