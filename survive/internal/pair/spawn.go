package pair

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/internal/proc"
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
	inputFD
	countersFD
	givenFD // the first of any number
)

// Resources are the descriptors of a process of the pair, beside its link.
type Resources struct {
	Device  int // of /dev/fuse, non-blocking
	Lock    *os.File
	Control *os.File // listens
	Log     *os.File // see calllog.Inherit
	Input   *os.File // the directory that the file system reads; nil: none
	// Counters is what the process counts in; nil: nothing. See package counters.
	Counters *os.File
	// Crash is the standard error, where Go's runtime says why it ends the process; nil: /dev/null.
	Crash *os.File
	Given []*os.File
	// Config is the file system's configuration. It is passed on in the environment, which only
	// root can read: a process of the pair is not dumpable.
	Config string
}

// start executes this process's own binary as the first process of a pair, or of a new
// version's. The process is root's until it becomes the daemon's user by itself, so that no
// process of that user can stop it while this one waits for execve(2). It gets one end of a
// link, and is killed if introduce, which has it serve, fails.
func (at Place) start(args []string, r Resources, end *os.File, introduce func(*os.Process) error) (*os.Process, error) {
	defer end.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if err := proc.CloseOnExec(); err != nil {
		return nil, err
	}
	var process *os.Process
	err = confine.AsCalledByNobody(func() (err error) {
		process, err = spawn(args, r, end, null)
		return err
	})
	if err != nil {
		return nil, err
	}
	end.Close() // so that its death ends the link
	if err := introduce(process); err != nil {
		_ = process.Kill()
		go func() { _, _ = process.Wait() }() // it may wait in the kernel, and then does not end
		return nil, err
	}
	return process, nil
}

// Workers is how many requests are served at a time: while one waits for a disk, another
// worker serves the others, which take microseconds. Two that wait make all others wait: see
// slow in package connection.
const Workers = 2

// environment bounds the runtime's threads, and the memory that it keeps for each
// of them, on nodes with many CPUs. The caller's environment is left out: the
// kubelet's may hold secrets.
var environment = []string{"GOMAXPROCS=" + strconv.Itoa(Workers)}

const configVariable = "CONFIG"

// spawn executes this process's own binary as a process of the pair: in a
// session of its own, in /, with /dev/null on descriptors 0 and 1 and nothing
// else of ours. In particular it must not hold the pipe that the kubelet reads to
// its end. It executes its own binary, also when another version is installed by now.
func spawn(args []string, r Resources, end, null *os.File) (*os.Process, error) {
	// A duplicate, because reading the number of an os.File would make the
	// device blocking, for all who share it.
	fd, err := unix.FcntlInt(uintptr(r.Device), unix.F_DUPFD_CLOEXEC, inputFD+1)
	if err != nil {
		return nil, os.NewSyscallError("duplicate /dev/fuse", err)
	}
	device := os.NewFile(uintptr(fd), "/dev/fuse")
	defer device.Close()
	stderr := r.Crash
	if stderr == nil {
		stderr = null
	}
	files := []*os.File{
		null, null, stderr,
		deviceFD: device, linkFD: end, lockFD: r.Lock, controlFD: r.Control, logFD: r.Log, inputFD: r.Input,
		countersFD: r.Counters,
	}
	env := environment
	if r.Config != "" {
		env = append(slices.Clip(env), configVariable+"="+r.Config)
	}
	return os.StartProcess("/proc/self/exe", append([]string{os.Args[0], Verb}, args...), &os.ProcAttr{
		Dir:   "/",
		Env:   env,
		Files: append(files, r.Given...),
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}
