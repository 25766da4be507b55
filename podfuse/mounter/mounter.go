package mounter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/mounter/keep"
	"example.com/pod-info-fuse/podfuse/wire"
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
	if errors.Is(err, keep.ErrLeave) {
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
	m := &mounter{
		Config: config, set: set, log: log.Line, logFile: os.NewFile(logFD, "log"), turns: make(chan func()),
		links: map[uint64]*peer{}, volumes: map[volume.ID]*client{}, orders: map[string]*order{},
		failures: map[volume.ID]int{}, recovered: make(chan struct{}),
		children: map[string]*podChildren{}, aborts: make(chan struct{}, mostAborts),
	}
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

// mounter has the state. But for Config and turns, it belongs to the goroutine that takes turns.
type mounter struct {
	Config
	log     func(format string, args ...any)
	logFile *os.File
	turns   chan func()

	set       *keep.Set
	spare     *os.Process // nil: there is none
	leaving   bool        // no other spare is wanted: this process is about to end
	links     map[uint64]*peer
	current   uint64 // the link that has said hello last, 0: none
	volumes   map[volume.ID]*client
	orders    map[string]*order // by their names in the set
	last      uint64            // generation
	returns   uint64            // of programs, after others that have served the same volume
	trouble   error             // why pods cannot ask
	renews    bool              // containers are being given the socket
	renewNext time.Time         // no renewal begins before
	recovered chan struct{}     // closed when the programs of a mounter before were looked for
	failures  map[volume.ID]int // of orders

	children map[string]*podChildren // by the pod's UID, without dashes
	aborts   chan struct{}           // taken by children that end connections
	// connections is the kernel's file system of FUSE connections: see waiting.
	connections *os.File
}

// client is a volume that programs serve.
type client struct {
	living  *connection
	former  []*connection // oldest first: of programs that are dead, or have unmounted it and live
	history History
	busy    chan struct{} // taken by what mounts or attaches
	users   int           // who have or want that
	// lost are its server volumes, while a mounter before may have known a program of it; see recover.
	lost []volume.Record
}

// all are its connections.
func (c *client) all() []*connection {
	if c.living == nil {
		return c.former
	}
	return append(slices.Clone(c.former), c.living)
}

// hasNothing tells that there is nothing to tell of the volume. Somebody may be at work on it all the same.
func (c *client) hasNothing() bool {
	return len(c.all()) == 0 && c.history == (History{}) && c.lost == nil
}

// remove removes a connection.
func (c *client) remove(gone *connection) {
	c.former = slices.DeleteFunc(slices.Clone(c.former), func(other *connection) bool { return other == gone })
	if c.living == gone {
		c.living = nil
		close(gone.over)
	}
}

// History is what status tells of a volume's programs, and of who waits for one. It is kept until the
// volume is unmounted.
type History struct {
	Programs int `json:"programs"` // that have served it
	// Since is when the last one began to serve, or died; before the first one, when the first who
	// waits for it began to. Zero: nobody has.
	Since   time.Time `json:"since"`
	Waiting int       `json:"waiting,omitempty"` // requests that wait, says the pair
}

// remember keeps that a program has begun to serve, or has died.
func (m *mounter) remember(id volume.ID, programs int) {
	h := m.client(id).history
	if programs > 0 && h.Programs > 0 {
		m.returns++
		m.set.Put(returnsName, m.returns, nil)
	}
	h.Programs, h.Since = h.Programs+programs, now()
	m.keepHistory(id, h)
}

// count keeps how many wait for a volume.
func (m *mounter) count(id volume.ID, waiting int) {
	h := m.client(id).history
	if h.Waiting = waiting; waiting > 0 && h.Since.IsZero() {
		h.Since = now()
	}
	m.keepHistory(id, h)
}

// countAnew forgets who waits: another process of the pair begins to count, and the wait for a first
// program begins anew.
func (m *mounter) countAnew() {
	for id, c := range m.volumes {
		h := c.history
		if h.Waiting = 0; h.Programs == 0 {
			h.Since = time.Time{}
		}
		m.keepHistory(id, h)
	}
}

// now is in seconds: nobody is told more.
func now() time.Time { return time.Now().Round(time.Second) }

func (m *mounter) keepHistory(id volume.ID, h History) {
	name, c := historyPrefix+id.String(), m.client(id)
	before := c.history
	switch c.history = h; h {
	case before:
	case History{}:
		m.set.Drop(name)
	default:
		m.set.Put(name, h, nil)
	}
	m.tidy(id)
}

// forgetHistory ends it.
func (m *mounter) forgetHistory(id volume.ID) { m.keepHistory(id, History{}) }

func (m *mounter) resumeHistory(name string) {
	var kept History
	id, err := volume.ParseID(strings.TrimPrefix(name, historyPrefix))
	if _, good := m.set.Get(name, &kept); err != nil || !good {
		m.set.Drop(name)
		return
	}
	m.client(id).history = kept
}

// do has a function called in a turn, and waits for its end.
func (m *mounter) do(f func()) {
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
	lostName       = "lost" // while there may be programs of a mounter before, which was lost with all that it kept
	mostOrders     = 4096   // at a time; the pair asks once for each process that waits
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
	if _, kept := m.set.Get(vaultName, nil); !kept {
		m.set.Put(lostName, struct{}{}, nil)
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
	m.beginRecovery()
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
	ours, process, err := m.Config.start(m.logFile, confined)
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	return process, m.set.Feed(ours, func() { _ = process.Kill() })
}

// nextGeneration is larger than all before, also those of a mounter that was lost with all that
// it kept: the pair may know them.
func (m *mounter) nextGeneration() uint64 {
	m.last = max(m.last+1, uint64(time.Now().UnixMicro()))
	return m.last
}

// client returns a volume's entry in the table.
func (m *mounter) client(id volume.ID) *client {
	c := m.volumes[id]
	if c == nil {
		c = &client{busy: make(chan struct{}, 1)}
		m.volumes[id] = c
	}
	return c
}

// tidy removes a volume's entry if nothing is in it.
func (m *mounter) tidy(id volume.ID) {
	if c := m.volumes[id]; c != nil && c.hasNothing() && c.users == 0 {
		delete(m.volumes, id)
	}
}

func connectionName(id volume.ID, generation uint64) string {
	return connPrefix + id.String() + "/" + strconv.FormatUint(generation, 10)
}

// tell tells the pair.
func (m *mounter) tell(e wire.Event, files ...*os.File) {
	if l := m.links[m.current]; l != nil {
		l.tell(e, files...)
	}
}

// tellFormer tells it that a program is dead, with its connection, or lives and serves its volume no more.
func (m *mounter) tellFormer(c *connection) {
	if c.Dead {
		m.tell(c.diedEvent(), c.file)
	} else if c.Served {
		m.tell(c.diedEvent())
	}
}

func (c *connection) diedEvent() wire.Event {
	return wire.Event{Kind: wire.Died, Volume: c.Volume, Generation: c.Generation, Since: c.Since}
}

// tellAll tells it what it has to know of all volumes. It may know a part of it.
func (m *mounter) tellAll() {
	for id, c := range m.volumes {
		for _, former := range c.former {
			m.tellFormer(former)
		}
		if c.living != nil && c.living.Served {
			m.tell(wire.Event{Kind: wire.ServedNow, Volume: id, Generation: c.living.Generation})
		}
	}
}
