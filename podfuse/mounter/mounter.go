package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/mounter/keep"
	"example.com/pod-info-fuse/survive/volume"
)

// Verb is the subcommand that runs a mounter or its spare. It is not for people.
const Verb = "mounter"

// The descriptors of a mounter.
const (
	linkFD = 3 + iota // to the process that it is the spare of
	logFD
)

// Config is what a mounter is started with, on its command line.
type Config struct {
	podfuse.Layout
	Type    string // of the node mount, "fuse." and the program's name
	Source  string // of the node mount: the driver's name
	Version string // of this binary
}

func (c Config) args() []string { return []string{c.RunDir, c.Type, c.Source, c.Version} }

// confined is the argument after those of a spare that a mounter has started: it has the filter of
// that, which must not pile up.
const confined = "--confined"

// Internal returns what executes a command that the mounter is, or starts; nil for any other.
func Internal(command string) func(args []string) error {
	switch command {
	case Verb:
		return run
	case childVerb:
		return errand
	}
	return nil
}

// run is the life of a mounter: it begins as a spare.
func run(args []string) error {
	inherits := len(args) == 5 && args[4] == confined
	if len(args) != 4 && !inherits || !filepath.IsAbs(args[0]) {
		return fmt.Errorf("%q is what the driver starts by itself, not a command", Verb)
	}
	proc.KeepMonitorAwake()
	debug.SetGCPercent(20)
	config := Config{podfuse.Layout{RunDir: args[0]}, args[1], args[2], args[3]}
	unix.CloseOnExec(logFD)
	unix.CloseOnExec(linkFD)
	log := calllog.Inherit(strings.TrimPrefix(config.Type, "fuse.")+"-mounter", logFD)
	if !inherits {
		if err := restrict(log); err != nil {
			log.Line("%v", err)
			return err
		}
	}
	pause("stand")
	link := os.NewFile(linkFD, "link")
	set, err := keep.Stand(link)
	link.Close()
	if errors.Is(err, keep.ErrPart) {
		return nil
	} else if err != nil {
		log.Line("stand by: %v", err)
		return err
	}
	lock, err := config.lock()
	if err != nil {
		log.Line("%v", err)
		return err
	}
	defer lock.Close()
	m := newMounter(&base{Config: config, set: set, log: log.Line})
	m.logFile = os.NewFile(logFD, "log")
	m.begin()
	for turn := range m.turns {
		turn()
	}
	return nil
}

// lock waits for the mounter before, which may be about to end, and keeps others from being one
// at the same time. The kernel tells call-outs who has it: see Client.
func (c Config) lock() (*os.File, error) {
	file, err := os.OpenFile(c.lockPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	for {
		err := unix.FcntlFlock(file.Fd(), unix.F_SETLKW, &whole)
		if err == nil {
			return file, nil
		} else if !errors.Is(err, unix.EINTR) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

func (c Config) lockPath() string   { return c.MounterSocket() + ".lock" }
func (c Config) startsPath() string { return c.MounterSocket() + ".starts" }

// base is what all parts of a mounter have. But for Config, log and turns, it belongs to the
// goroutine that takes turns, as all that the parts have themselves.
type base struct {
	Config
	log     func(format string, args ...any)
	turns   chan func()
	set     *keep.Set
	trouble error // why pods cannot ask
	// connections is the kernel's file system of FUSE connections: see waiting.
	connections *os.File
}

// mounter takes orders and call-outs. Each part knows those before it.
type mounter struct {
	*base
	*children
	*shared
	*table
	*programs
	*recovery
	logFile *os.File
	spare   *os.Process       // nil: there is none
	leaving bool              // no other spare is wanted: this process is about to end
	orders  map[string]*order // by their names in the set
}

func newMounter(b *base) *mounter {
	b.turns = make(chan func())
	c := &children{base: b, of: map[string]*podChildren{}, aborts: make(chan struct{}, mostAborts)}
	t := &table{base: b, volumes: map[volume.ID]*client{}, failures: map[volume.ID]int{}}
	p := &programs{base: b, children: c, table: t, links: map[uint64]*peer{}}
	return &mounter{
		base: b, children: c, shared: &shared{base: b, children: c}, table: t, programs: p,
		recovery: &recovery{programs: p, recovered: make(chan struct{})}, orders: map[string]*order{},
	}
}

// do has a function called in a turn, and waits for its end.
func (m *base) do(f func()) {
	done := make(chan struct{})
	m.turns <- func() { f(); close(done) }
	<-done
}

// The names in the set.
const (
	controlName    = "control"
	podsName       = "pods"
	launcherPrefix = "launcher/"
	vaultName      = "locked vault" // that of version 0.1.1, "vault", locks no flags of mounts
	linkPrefix     = "pair/"
	connPrefix     = "connection/"
	orderPrefix    = "order/"
	historyPrefix  = "history/"
	returnsName    = "returns"
	mostOrders     = 4096 // at a time; the pair asks once for each process that waits
	fewOrders      = 16   // of a pod, which are taken beyond mostOrders, too
	mostLinks      = 4
	childTime      = 5 * time.Second
	// orderTime is how long an order to attach may take, and other work on a volume may keep it
	// waiting: less than the pair waits for it.
	orderTime        = 8 * time.Second
	spareBackoff     = 100 * time.Millisecond
	spareMostBackoff = 10 * time.Second
)

// controlMeta is kept with the socket of call-outs.
type controlMeta struct {
	// Identity is another one after all that was kept has been lost.
	Identity string `json:"identity"`
}

// begin takes over what the set has, and goes on with it.
func (m *mounter) begin() {
	pause("begin")
	m.set.Lost = func(err error) { m.log("the spare does not read, and was killed: %v", err) }
	m.newSpare(spareBackoff)
	if err := os.Mkdir(m.Connections(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		m.log("%v; if the spare dies, too, the next mounter finds no programs", err)
	}
	m.openVault()
	m.openPods()
	for _, name := range m.set.Names(linkPrefix) {
		m.resumeLink(name)
	}
	m.set.Get(returnsName, &m.returns)
	for _, name := range m.set.Names(historyPrefix) {
		m.resumeHistory(name)
	}
	for _, name := range m.set.Names(connPrefix) {
		m.resumeConnection(name)
	}
	for _, c := range m.volumes {
		slices.SortFunc(c.former, func(a, b *connection) int { return int(a.Generation) - int(b.Generation) })
	}
	go m.recoverAll(m.loadLost())
	for _, name := range m.set.Names(orderPrefix) {
		m.resumeOrder(name)
	}
	m.tellAll()
	go m.control()
	m.log("version %s mounts, process %d", m.Version, os.Getpid())
}

// newSpare starts the process that goes on when this one dies.
func (m *mounter) newSpare(backoff time.Duration) {
	process, err := m.startSpare()
	if err != nil {
		m.log("start a spare: %v", err)
	} else {
		m.spare = process
	}
	began := time.Now()
	go func() {
		if process != nil {
			_, _ = process.Wait()
		}
		if time.Since(began) > spareMostBackoff {
			backoff = spareBackoff
		}
		m.do(func() {
			if m.spare == process && m.spare != nil {
				m.set.Forget()
				m.spare = nil
			}
		})
		time.Sleep(backoff)
		m.do(func() {
			if m.spare == nil && !m.leaving {
				m.newSpare(min(2*backoff, spareMostBackoff))
			}
		})
	}()
}

func (m *mounter) startSpare() (*os.Process, error) {
	ours, process, err := m.Config.start(environment, m.logFile, confined)
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	return process, m.set.Feed(ours, func() { _ = process.Kill() })
}

// environment bounds the runtime's threads. The caller's is left out: the kubelet's may hold
// secrets.
var environment = []string{"GOMAXPROCS=2"}

// start executes this process's own binary as a spare of this process, with an environment and the
// log, and returns our end of its link.
func (c Config) start(environment []string, log *os.File, more ...string) (link *os.File, process *os.Process, err error) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	process, err = proc.StartSelf(environment, 0, slices.Concat([]string{Verb}, c.args(), more), theirs, log)
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	return ours, process, nil
}

// pause is called before each step, with its name. A test has it wait there.
var pause = func(step string) {}
