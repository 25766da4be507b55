package pair

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/calllog"
)

// Service answers the requests of the connection: Serve is called once, and any other
// method from another goroutine.
type Service interface {
	// Serve answers requests until the file system is unmounted or Stop is called, which
	// are no errors.
	Serve() error
	// Stop makes Serve return at a request boundary: it answers the requests that were read,
	// and leaves the others to the successor.
	Stop()
	// Probe waits for a sign of life, and does not return while the service hangs. It
	// reports false when Serve has returned.
	Probe() bool
	// Recover is for the requests that a process before had read and not answered. It is
	// called before Serve. ENODEV: the file system was unmounted.
	Recover() error
	// SetStandby says whether another process would take over if this one died. At first, none
	// would. What may end this process is not answered until then.
	SetStandby(is bool)
	// Close releases a service that shall not Serve.
	Close()
}

// Config configures a process of the pair.
type Config struct {
	Args    []string // of the command that runs Main, for the standby that this process starts
	Version string
	// Confine takes from the process everything that serving does not need. landlocked says
	// whether Landlock is in force.
	Confine func() (landlocked bool, err error)
	// Open prepares to serve a device of /dev/fuse, which stays the caller's. It is called
	// once the process is confined, and again whenever it is to serve.
	Open func(device int) (Service, error)
	// TookOver is told, once, that the process takes over, and why, before it calls Open to serve.
	TookOver func(Cause)
	// LostStandby is told that the standby is dead, and whether that is one of many in a row.
	LostStandby func(oneOfMany bool)
	Resources   Resources // see Inherited
	Log         Logger
}

// process is a process of the pair.
type process struct {
	Config
	env
	self      Process
	starter   link
	terminate <-chan os.Signal
	history   History

	hasActive, hasStandby bool // the locks
}

// InheritedLog is the log that this process was started with.
func InheritedLog(tag string) calllog.Log { return calllog.Inherit(tag, logFD) }

// Inherited returns what spawn has started this process with; false: another program has started
// it. Call it once, and close none of the files: the next standby gets them.
func Inherited() (r Resources, is bool) {
	if !isFUSE(deviceFD) {
		return r, false
	}
	r = Resources{
		Device: deviceFD, Lock: os.NewFile(lockFD, "daemon.lock"),
		Control: os.NewFile(controlFD, "control socket"), Log: os.NewFile(logFD, "log"),
		Input: inherited(inputFD, "input", unix.S_IFDIR, unix.S_IFREG), Counters: inherited(countersFD, "counters", unix.S_IFREG),
		Crash: os.Stderr, Config: os.Getenv(configVariable),
	}
	fd := givenFD
	for ; ; fd++ {
		// What this process has opened itself is closed at execve(2).
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			break
		}
		r.Given = append(r.Given, os.NewFile(uintptr(fd), "descriptor "+strconv.Itoa(fd)))
	}
	for fd--; fd >= deviceFD; fd-- {
		unix.CloseOnExec(fd)
	}
	return r, true
}

// inherited is a descriptor of one of some types; nil: there is none.
func inherited(fd int, name string, types ...uint32) *os.File {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || !slices.Contains(types, stat.Mode&unix.S_IFMT) {
		return nil
	}
	return os.NewFile(uintptr(fd), name)
}

// Main is the life of a process of the pair: first it stands by, then it
// serves. It returns when its successor serves, or when it is not needed.
func Main(config Config) error {
	asleep()
	starter, err := newLink(os.NewFile(linkFD, "descriptor "+strconv.Itoa(linkFD)), config.Log)
	if err != nil {
		return err
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, unix.SIGTERM)
	p := &process{
		Config: config, env: &system{Resources: config.Resources, args: config.Args, log: config.Log},
		self:    Process{PID: os.Getpid(), Version: config.Version, Started: time.Now().Round(0)},
		starter: starter, terminate: terminate,
	}
	return p.live()
}

func (p *process) live() error {
	if err := p.prepare(); err != nil {
		p.starter.send(message{Kind: broken, Problem: brief(err.Error())})
		return err
	}
	p.starter.send(message{Kind: ready, Process: &p.self})
	cause := p.standBy()
	if cause == "" {
		return nil
	}
	return p.takeOver(cause)
}

// prepare confines the process, and opens the device as for taking over, so that a version
// that cannot serve says so now.
func (p *process) prepare() (err error) {
	if p.self.Landlock, err = p.Confine(); err != nil {
		return err
	}
	service, err := p.Open(deviceFD)
	if err != nil {
		return err
	}
	service.Close() // while standing by, requests must not wake us
	return nil
}

// takeOver serves in the place of the process before.
func (p *process) takeOver(cause Cause) error {
	known := time.Now()
	p.awake()
	p.lockActive(releaseTime)
	p.TookOver(cause)
	service, err := p.Open(deviceFD)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	if cause == Crash || cause == Hang {
		if err := service.Recover(); errors.Is(err, unix.ENODEV) {
			return nil // unmounted meanwhile
		} else if err != nil {
			p.Log("requests that the process before had read may be lost: %v", err)
		}
	}
	if cause != Started {
		p.history.Takeovers++
	}
	p.history.Last = &Takeover{Cause: cause, At: known.Round(0)}
	a := &active{process: p, alive: make(chan struct{}, 1), requests: make(chan request)}
	a.serve(service)
	if !p.hasActive {
		p.Log("another process keeps the active one's lock; this one serves without")
	}
	p.history.Last.Milliseconds = float64(time.Since(known).Microseconds()) / 1000
	p.starter.send(message{Kind: serving})
	p.starter.close()
	p.Log("version %s serves (%s, %.1f ms)", p.Version, cause, p.history.Last.Milliseconds)
	return a.run()
}
