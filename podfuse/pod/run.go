package pod

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/cli"
	"example.com/pod-info-fuse/podfuse/wire"
)

const (
	// deviceFD is the descriptor of /dev/fuse in the program, whose arguments have {} for it.
	deviceFD    = 3
	placeholder = "{}"
)

// The exit status where the program has none, as shells have it.
const (
	statusRefused   = 1
	statusNoExec    = 126
	statusNotFound  = 127
	statusSignalled = 128 // and the signal's number
)

// launch is the command of the launcher. As PID 1 of a container, it reaps all orphaned processes.
func launch(set *pflag.FlagSet) func(args []string) error {
	options := set.StringP("options", "o", "", "how to mount for {}, as `OPTIONS` of fusermount3: ro, noexec, default_permissions, max_read=BYTES, subtype=NAME")
	restart := set.Bool("restart", false, "start the program again when it has ended, but for SIGTERM, SIGINT and SIGQUIT")
	set.SetInterspersed(false)
	return func(args []string) error { return run(args, *options, *restart) }
}

func run(args []string, options string, restart bool) error {
	l := launcher{args: args, signals: make(chan os.Signal, 64), children: make(chan os.Signal, 1)}
	var warnings []string
	var err error
	if l.options, warnings, err = parseOptions(options); err != nil {
		return cli.Usage(fmt.Errorf("run: %w", err))
	}
	for _, warning := range warnings {
		complain(program, "%s", warning)
	}
	if l.path, err = lookPath(l.args[0]); err != nil {
		complain(program, "%v", err)
		return cli.Status(statusOf(err))
	}
	if slices.ContainsFunc(l.args[1:], func(arg string) bool { return strings.Contains(arg, placeholder) }) {
		s, err := findServer()
		if err != nil {
			return err
		}
		l.server = &s
	}
	signal.Notify(l.children, unix.SIGCHLD)
	signal.Notify(l.signals)
	if !restart {
		return cli.Status(l.live().report())
	}
	return cli.Status(l.liveOn())
}

// launcher starts one program, as often as it is wanted.
type launcher struct {
	path     string
	args     []string
	options  wire.Options
	server   *server // nil: the program mounts by itself
	notice   string  // the driver's last one that was printed
	signals  chan os.Signal
	children chan os.Signal // SIGCHLD: a child has ended
}

// life is how a program, or the attempt to start it, has ended.
type life struct {
	status int
	err    error         // of the attempt
	last   bool          // we were told to end, or another attempt fails as well
	length time.Duration // of the program
	how    string        // it ended, for people
}

// report says what has gone wrong, and returns the exit status.
func (l life) report() int {
	if l.err != nil {
		complain(program, "%v", l.err)
	}
	return l.status
}

// youngTimeout is the age below which a program's end delays the next start, because the program
// would probably die again. A program that has lived longer is started again at once.
const youngTimeout = time.Second

const firstDelay, mostDelay = 100 * time.Millisecond, 10 * time.Second

// nextDelay returns how long to wait before the program is started again, after the delay before
// and a number of lives that were shorter than youngTimeout. The first short life causes no delay.
func nextDelay(delay time.Duration, youngs int) time.Duration {
	if youngs < 2 {
		return 0
	}
	return min(max(2*delay, firstDelay), mostDelay)
}

// liveOn starts the program again until it is told to end.
func (l *launcher) liveOn() int {
	var delay time.Duration
	youngs := 0
	for {
		one := l.live()
		if one.last {
			return one.report()
		}
		if youngs++; one.length >= youngTimeout {
			youngs = 0
		}
		delay = nextDelay(delay, youngs)
		when := "at once"
		if delay > 0 {
			when = "in " + delay.String()
		}
		if one.err != nil {
			complain(program, "%v; trying again %s", one.err, when)
		} else {
			complain(program, "%s %s; starting it again %s", l.args[0], one.how, when)
		}
		if _, signal := await(l, time.After(delay)); signal > 0 {
			return statusSignalled + signal
		}
	}
}

// ends tells whether a signal is to end a launcher that restarts.
func ends(s os.Signal) bool { return s == unix.SIGTERM || s == unix.SIGINT || s == unix.SIGQUIT }

// await waits for a value, unless a signal tells the launcher to end. It reaps what ends meanwhile.
func await[T any](l *launcher, values <-chan T) (value T, signal int) {
	for {
		select {
		case value = <-values:
			return value, 0
		case <-l.children:
			reap(0, nil)
		case s := <-l.signals:
			if ends(s) {
				return value, int(s.(syscall.Signal))
			}
		}
	}
}

// live starts the program with a new descriptor, and returns when it has ended.
func (l *launcher) live() life {
	device, stopped := l.connect()
	if stopped != nil {
		return *stopped
	}
	began := time.Now()
	pid, err := l.start(device)
	if device != nil {
		device.Close() // or the driver would take it for the program
	}
	if err != nil {
		err = fmt.Errorf("start %s: %w", l.path, err)
		return life{status: statusOf(err), err: err, last: true}
	}
	told := false
	for {
		select {
		case s := <-l.signals:
			if forwarded(s) {
				told = told || ends(s)
				_ = unix.Kill(pid, s.(syscall.Signal))
			}
		case <-l.children:
			status, ended := reap(pid, func() {
				// What it has left, an ssh(1) of sshfs, may hold the descriptor, with which the
				// driver would take the program for alive.
				_ = unix.Kill(-pid, unix.SIGKILL)
			})
			if !ended {
				continue
			}
			one := life{length: time.Since(began), last: told}
			if status.Signaled() {
				one.status = statusSignalled + int(status.Signal())
				one.how = fmt.Sprintf("was ended by signal %d (%v)", status.Signal(), status.Signal())
			} else {
				one.status = status.ExitStatus()
				one.how = fmt.Sprintf("has ended with status %d", status.ExitStatus())
			}
			return one
		}
	}
}

// connect has the driver mount, and returns the descriptor, or nil for a program that has it by
// itself. It returns the end of this life if there is none.
func (l *launcher) connect() (device *os.File, stopped *life) {
	if l.server == nil {
		return nil, nil
	}
	type result struct {
		answer wire.Answer
		device *os.File
		err    error
	}
	results := make(chan result, 1)
	go func() {
		answer, device, err := l.server.ask(wire.Request{Kind: wire.Serve, Options: l.options}, askTimeout, func(format string, args ...any) {
			complain(program, format, args...)
		})
		results <- result{answer, device, err}
	}()
	r, signal := await(l, results)
	if signal > 0 {
		return nil, &life{status: statusSignalled + signal, last: true}
	}
	if r.err != nil {
		refused, isRefusal := errors.AsType[refusal](r.err)
		return nil, &life{status: statusRefused, err: r.err, last: isRefusal && !refused.again}
	}
	l.tell(r.answer.Notice)
	return r.device, nil
}

// tell prints what the driver has noticed, once, and not again with each program that is started.
func (l *launcher) tell(notice string) {
	if notice != "" && notice != l.notice {
		complain(program, "%s", notice)
	}
	l.notice = notice
}

// start executes the program, with the descriptor of /dev/fuse if there is one.
func (l *launcher) start(device *os.File) (pid int, err error) {
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	args := slices.Clone(l.args)
	if device != nil {
		files = append(files, device)
		for i := range args[1:] {
			args[i+1] = strings.ReplaceAll(args[i+1], placeholder, fmt.Sprintf("/dev/fd/%d", deviceFD))
		}
	}
	process, err := os.StartProcess(l.path, args, &os.ProcAttr{
		Files: files,
		// A group of its own, to be killed whole; but a terminal gives its input to ours.
		Sys: &syscall.SysProcAttr{Setpgid: !isTerminal(unix.Stdin)},
	})
	if err != nil {
		return 0, err
	}
	defer process.Release() // reap waits for it
	return process.Pid, nil
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// reap takes all children that have ended. If the child pid has ended, reap calls before, takes
// that child as well, and returns its status; afterwards, the number may be another process's. Only
// the goroutine that starts children calls reap, because os.StartProcess may have a child of its
// own.
func reap(pid int, before func()) (status unix.WaitStatus, ended bool) {
	for {
		// siginfo_t (man 2 sigaction). Package unix does not have si_pid, which comes after three
		// numbers, aligned.
		var info [32]int32
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		child := int(info[2+unsafe.Sizeof(uintptr(0))/4])
		if err == unix.EINTR {
			continue
		} else if err != nil || child == 0 {
			return status, ended
		}
		var one unix.WaitStatus
		if child == pid {
			before()
		}
		if _, err := unix.Wait4(child, &one, 0, nil); err == nil && child == pid {
			status, ended = one, true
		}
	}
}

// forwarded tells whether a signal is for the program: not those that the kernel or the Go
// runtime has sent to this process.
func forwarded(s os.Signal) bool {
	switch s {
	case unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE, unix.SIGTTIN, unix.SIGTTOU:
		return false
	}
	return true
}

// lookPath returns the program that a shell would execute for a name.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("no directory of PATH (%s) has a program %s: %w", os.Getenv("PATH"), name, fs.ErrNotExist)
}

func statusOf(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return statusNotFound
	}
	return statusNoExec
}
