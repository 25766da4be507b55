package daemon

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/calllog"
	"example.com/pod-info-fuse/confine"
	"example.com/pod-info-fuse/connection"
	"example.com/pod-info-fuse/fs"
)

// gcPercent makes the garbage of served requests be collected early: nothing of
// it lives longer than a request, and the runtime's default would let 4 MB of it
// gather before it collects for the first time.
const gcPercent = 20

// standbyMemory is at what size, in bytes, a standby collects garbage in spite of that:
// several times what it needs.
const standbyMemory = 16 << 20

// Config is what a process of the pair is told.
type Config struct {
	Args       []string // of the command that runs Main, for the next process
	Version    string
	Params     connection.Params
	FS         *fs.FS
	MountPoint string // of the node mount
	// Confined says that this process was started by one that is confined.
	Confined bool
	Files    confine.Rules // what serving needs of them
	// Log is told what happens; it must not wait.
	Log func(format string, args ...any)
}

// process is a process of the pair.
type process struct {
	Config
	self      Process
	resources Resources
	starter   *link
	history   History
	terminate chan os.Signal
}

// Inherited tells whether this process was started by spawn.
func Inherited() bool {
	// Documentation/admin-guide/devices.txt: /dev/fuse is 10:229.
	var stat unix.Stat_t
	err := unix.Fstat(deviceFD, &stat)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFCHR && uint64(stat.Rdev) == unix.Mkdev(10, 229)
}

// InheritedLog is the log that this process was started with.
func InheritedLog() calllog.Log { return calllog.Inherit(logFD) }

// Main is the life of a process of the pair: first it stands by, then it
// serves. It returns when its successor serves, or when nobody needs it.
func Main(config Config) error {
	// A standby makes no garbage. To collect none all the same, which the runtime does
	// every two minutes (runtime/proc.go, forcegcperiod), costs it a third of its memory.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(standbyMemory)
	starter, err := newLink(linkFD)
	if err != nil {
		return err
	}
	for _, fd := range []int{deviceFD, lockFD, controlFD, logFD} {
		unix.CloseOnExec(fd)
	}
	p := &process{
		Config:  config,
		self:    Process{PID: os.Getpid(), Version: config.Version, Started: time.Now().Round(0)},
		starter: starter,
		resources: Resources{
			Device: deviceFD, Lock: os.NewFile(lockFD, "daemon.lock"),
			Control: os.NewFile(controlFD, "control socket"), Log: os.NewFile(logFD, "log"),
		},
		terminate: make(chan os.Signal, 1),
	}
	signal.Notify(p.terminate, syscall.SIGTERM)
	if err := p.prepare(); err != nil {
		starter.send(message{Kind: broken, Problem: err.Error()})
		return err
	}
	starter.send(message{Kind: ready, Process: &p.self})
	cause, err := p.standBy()
	if err != nil || cause == "" {
		return err
	}
	return p.takeOver(cause)
}

// prepare confines the process, and does the same as taking over does, so that a
// version that cannot serve says so now.
func (p *process) prepare() error {
	if err := p.confine(); err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	c.Close() // while standing by, requests must not wake us
	return nil
}

func (p *process) confine() error {
	if p.Confined {
		if err := confine.Repeat(); err != nil {
			return err
		}
	} else {
		problems, err := confine.Enter(p.Files)
		if err != nil {
			return err
		}
		for _, problem := range problems {
			p.Log("it goes on with less confinement: %s", problem)
		}
	}
	p.self.Landlock = confine.Landlocked()
	p.attack()
	return nil
}

// workers is how many requests are served at a time: while one of them waits for a disk,
// others are served, which take microseconds. Two that wait make all others wait.
const workers = 2

func (p *process) connect() (*connection.Connection, error) {
	c, err := connection.New(p.resources.Device, p.Params, p.FS, workers, func(problem string) { p.Log("%s", problem) })
	if err == nil {
		p.FS.Store = c.Store
	}
	return c, err
}

// becomeActive takes the lock of the active process. Nobody serves when we have it,
// and also not when its holder was killed and waits in the kernel, perhaps for us: then
// we get it when that has ended.
func (p *process) becomeActive(cause Cause) error {
	if cause != Hang {
		return acquire(p.resources.Lock, activeByte)
	}
	locked := make(chan error, 1)
	go func() { locked <- acquire(p.resources.Lock, activeByte) }()
	select {
	case err := <-locked:
		return err
	case <-time.After(beat):
		p.Log("the process that was killed does not end; it is replaced all the same")
		return nil
	}
}

// takeOver serves in the place of the process before.
func (p *process) takeOver(cause Cause) error {
	known := time.Now()
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(math.MaxInt64)
	if err := p.becomeActive(cause); err != nil {
		return err
	}
	if err := release(p.resources.Lock, standbyByte); err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	if cause == Crash || cause == Hang {
		if err := c.Recover(p.MountPoint); errors.Is(err, unix.ENODEV) {
			return nil // unmounted meanwhile
		} else if err != nil {
			p.Log("requests that the process before had read may be lost: %v", err)
		}
	}
	if cause != Started {
		p.history.Takeovers++
	}
	p.history.Last = &Takeover{Cause: cause, At: known.Round(0)}
	a := newActive(p, c)
	p.history.Last.Milliseconds = float64(time.Since(known).Microseconds()) / 1000
	p.starter.send(message{Kind: serving})
	p.starter.close()
	p.Log("version %s serves (%s, %.1f ms)", p.Version, cause, p.history.Last.Milliseconds)
	return a.run()
}
