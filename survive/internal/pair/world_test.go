package pair

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// world is the system in which the processes of a pair live in a test: their locks, links,
// signals and deaths. Its time is that of a synctest bubble. A process is the product's own
// life of it; all that it does goes through its env, where one that is dead does nothing.
type world struct {
	t *testing.T

	mu        sync.Mutex
	processes []*fake       // by PID, from 1
	locks     [2]*fake      // of daemon.lock
	born      map[int]fault // how a process will be, by PID
	unlucky   bool          // a process dies in the worst moment
	lockless  bool          // the system calls for locks fail
	spawns    int           // how many attempts to start a process fail
	unmounted chan struct{}
	log       []string

	unserved time.Time // zero: somebody serves
	gap      time.Duration

	calls   map[string]int    // what processes have asked of their env, how many times
	moments []moment          // in which they did, in their order
	when    map[string]func() // what happens before they do
}

// moment is when a process asks something of its env.
type moment struct {
	name string // PID, what it asks for, for the how many'th time
	live []int  // who lives then
}

// fault is how a process is that is not well.
type fault struct {
	late    time.Duration // until it begins to live
	broken  error         // it cannot be confined
	opens   map[int]error // which Open fails, from 1
	recover error
	probes  time.Duration // how long a sign of life takes
	format  int           // that it speaks, more than ours
}

func newWorld(t *testing.T) *world {
	return &world{t: t, born: map[int]fault{}, unmounted: make(chan struct{}), calls: map[string]int{}, when: map[string]func(){}}
}

// fake is a process in a world.
type fake struct {
	*world
	fault
	life        *process
	pid, opened int
	idle        int     // services that are open, and neither serve nor were closed
	probed      bool    // and has not answered
	knows       [2]bool // which locks it has, when it last sent a message
	version     string
	terminate   chan os.Signal
	requests    chan<- request
	ends        []*end
	counted     []Cause // take-overs by it

	killed   chan struct{} // closed: it does nothing any more
	gone     bool          // its descriptors are closed
	resumed  chan struct{} // nil: it is not stopped
	stubborn bool          // a thread of it waits in the kernel: it cannot end
	hung     bool
	serving  bool
	served   bool // it does, or did
	ready    bool // to serve, as far as its memory goes
	secure   bool // it knows of a standby
}

// startUp is how long it takes until a process begins to live.
const startUp = 5 * time.Millisecond

// begin starts a process of a version at the end of a link.
func (w *world) begin(version string, starter *end, format int) *fake {
	w.mu.Lock()
	defer w.mu.Unlock()
	pid := len(w.processes) + 1
	p := &fake{world: w, fault: w.born[pid], pid: pid, version: version,
		terminate: make(chan os.Signal, 1), killed: make(chan struct{})}
	p.format = max(p.format, format)
	w.processes = append(w.processes, p)
	starter.owner = p
	p.ends = append(p.ends, starter)
	p.life = &process{
		Config: Config{
			Version: version,
			Confine: func() (bool, error) { p.do("confine"); return true, p.broken },
			Open:    p.open,
			Log: func(format string, args ...any) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.log = append(w.log, fmt.Sprintf("%d: ", pid)+fmt.Sprintf(format, args...))
			},
			TookOver: func(c Cause) { p.change(func() { p.counted = append(p.counted, c) }) },
			LostStandby: func(oneOfMany bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.log = append(w.log, fmt.Sprintf("%d: lost a standby, one of many: %v", pid, oneOfMany))
			},
		},
		env: p, starter: starter, terminate: p.terminate,
		self: Process{PID: pid, Version: version},
	}
	go func() {
		select {
		case <-time.After(startUp + p.late):
		case <-p.killed:
		}
		p.do("begin")
		_ = p.life.live()
		p.do("exit")
		p.die(true)
	}()
	return p
}

// do is before whatever a process does: it waits while it is stopped, and comes to its end
// when it is dead.
func (p *fake) do(what string) {
	p.mu.Lock()
	key := fmt.Sprintf("%d %s", p.pid, what)
	p.calls[key]++
	now := moment{name: fmt.Sprintf("%s %d", key, p.calls[key])}
	for _, other := range p.processes {
		if !other.gone {
			now.live = append(now.live, other.pid)
		}
	}
	p.moments = append(p.moments, now)
	happen := p.when[now.name]
	p.mu.Unlock()
	if happen != nil {
		happen()
	}
	p.mu.Lock()
	resumed := p.resumed
	p.mu.Unlock()
	if resumed != nil {
		select {
		case <-resumed:
		case <-p.killed:
		}
	}
	select {
	case <-p.killed:
		runtime.Goexit()
	default:
	}
}

// die ends a process. Where it may linger, one that is stubborn keeps what it has open.
func (p *fake) die(wholly bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.killed:
	default:
		close(p.killed)
	}
	if p.stubborn && !wholly || p.gone {
		p.account()
		return
	}
	p.gone = true
	for b, holder := range p.locks {
		if holder == p {
			p.locks[b] = nil
		}
	}
	for _, e := range p.ends {
		e.cut()
	}
	p.account()
}

// account notes whether anybody serves. The caller holds mu.
func (w *world) account() {
	serves := slices.ContainsFunc(w.processes, func(p *fake) bool {
		select {
		case <-p.killed:
			return false
		default:
			return p.serving && !p.hung && p.resumed == nil
		}
	})
	switch {
	case !serves && w.unserved.IsZero():
		w.unserved = time.Now()
	case serves && !w.unserved.IsZero():
		w.gap = max(w.gap, time.Since(w.unserved))
		w.unserved = time.Time{}
	}
}

// get returns a process; nil: it is not born yet.
func (w *world) get(pid int) *fake {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pid > len(w.processes) {
		return nil
	}
	return w.processes[pid-1]
}

// change changes something under the lock.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.account()
}

// The env of a process.

func (p *fake) take(b int64) bool {
	p.do("take")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		runtime.Goexit() // it died on the way, and takes nothing any more
	}
	if p.lockless {
		return false
	}
	if p.locks[b] == nil {
		p.locks[b] = p
	}
	return p.locks[b] == p
}

func (p *fake) release(b int64) {
	p.do("release")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.locks[b] != p || p.lockless {
		return
	}
	if p.locks[b] = nil; p.locks[1-b] == nil && !p.unlucky {
		p.t.Errorf("%d releases the last lock: who asks finds a pair that is lost", p.pid)
	}
}

func (p *fake) holder(b int64) Holder {
	p.do("holder")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lockless {
		closed := Resources{Lock: os.NewFile(1<<20, "daemon.lock")}
		return (&system{Resources: closed, log: func(string, ...any) {}}).holder(b)
	}
	if p.locks[b] == nil {
		return Holder{}
	}
	return Holder{Held: true, PID: p.locks[b].pid}
}

func (p *fake) kill(pid int) {
	p.do("kill")
	if pid == 0 || pid == p.pid {
		p.t.Errorf("%d kills process %d", p.pid, pid)
		return
	}
	p.get(pid).die(false)
}

func (p *fake) spawn() (link, func(), error) {
	p.do("spawn")
	p.mu.Lock()
	fails, format := p.spawns > 0, p.format
	if fails {
		p.spawns--
	}
	p.mu.Unlock()
	if fails {
		return nil, nil, unix.EAGAIN
	}
	ours, theirs := p.link(p)
	child := p.begin(p.version, theirs, format)
	return ours, func() { p.do("end"); child.die(false) }, nil
}

func (p *fake) control(requests chan<- request) { p.change(func() { p.requests = requests }) }

func (p *fake) awake() { p.change(func() { p.ready = true }) }

// service is what a process serves with.
type service struct {
	*fake
	stopped chan struct{}
	ended   chan struct{}
}

func (p *fake) open(int) (Service, error) {
	p.do("open")
	var err error
	p.change(func() {
		p.opened++
		if err = p.opens[p.opened]; err == nil {
			p.idle++
		}
	})
	if err != nil {
		return nil, err
	}
	return &service{p, make(chan struct{}), make(chan struct{})}, nil
}

func (s *service) Serve() error {
	defer close(s.ended)
	s.change(func() { s.serving, s.served = true, true; s.idle-- })
	select {
	case <-s.stopped:
		s.hangs()
	case <-s.unmounted:
	case <-s.killed:
	}
	s.change(func() { s.serving = false })
	return nil
}

// hangs waits for the end of a process that hangs.
func (p *fake) hangs() {
	p.mu.Lock()
	hung := p.hung
	p.mu.Unlock()
	if hung {
		<-p.killed
	}
}

func (s *service) Stop() { s.do("stop"); close(s.stopped) }

func (s *service) Probe() bool {
	s.change(func() {
		if s.probed {
			s.t.Errorf("%d is asked for a sign of life, and again", s.pid)
		}
		s.probed = true
	})
	s.do("probe")
	s.hangs()
	s.mu.Lock()
	takes := s.probes
	s.mu.Unlock()
	select {
	case <-s.ended:
	case <-time.After(takes):
	}
	s.change(func() { s.probed = false })
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

func (s *service) Recover() error     { s.do("recover"); return s.recover }
func (s *service) SetStandby(is bool) { s.change(func() { s.secure = is }) }
func (s *service) Close()             { s.do("close"); s.change(func() { s.idle-- }) }

// end is one end of a link; owner is nil at a call-out.
type end struct {
	*world
	owner    *fake
	other    *end
	messages chan message
	closed   bool // by whichever end, or a death
	released bool // by the owner
}

// link makes a link, of which the first end has an owner.
func (w *world) link(owner *fake) (*end, *end) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one, other := &end{world: w, messages: make(chan message, 1000)}, &end{world: w, messages: make(chan message, 1000)}
	one.other, other.other, one.owner = other, one, owner
	if owner != nil {
		owner.ends = append(owner.ends, one)
		if owner.gone {
			one.cut() // it died on the way, and its descriptors are closed
		}
	}
	return one, other
}

func (e *end) inbox() <-chan message { return e.messages }

func (e *end) send(m message) {
	if e.owner != nil {
		e.owner.do("send " + m.Kind)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.owner; p != nil {
		p.knows = [2]bool{p.life.hasActive, p.life.hasStandby}
	}
	if e.closed {
		return
	}
	newer := e.format() - e.other.format()
	e.other.gets(inFormat(e.t, m.encode(), format+max(newer, 0)))
}

// gets is the arrival of a packet. The caller holds mu.
func (e *end) gets(packet []byte) {
	m, err := decode(packet)
	if err != nil {
		e.log = append(e.log, fmt.Sprintf("a message is lost: %v", err))
		return
	}
	e.messages <- m
}

// format is how much newer than ours the format is that the owner speaks. The caller holds
// mu.
func (e *end) format() int {
	if e.owner == nil {
		return 0
	}
	return e.owner.format
}

// inFormat makes a packet one of another format.
func inFormat(t *testing.T, packet []byte, format int) []byte {
	fields := map[string]any{}
	if err := json.Unmarshal(packet, &fields); err != nil {
		t.Error(err)
	}
	if fields["Format"] != nil {
		fields["Format"] = format
	}
	packet, _ = json.Marshal(fields)
	return packet
}

func (e *end) close() {
	if e.owner != nil {
		e.owner.do("close link")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.released = true
	e.cut()
}

// cut ends the link. The caller holds mu.
func (e *end) cut() {
	for _, e := range []*end{e, e.other} {
		if !e.closed {
			e.closed = true
			close(e.messages)
		}
	}
}

// What a call-out does.

// start starts the pair, as Place.Start does.
func (w *world) start(version string) error {
	ours, theirs := w.link(nil)
	p := w.begin(version, theirs, 0)
	first := newChild(ours, nil)
	defer first.end()
	err := first.introduce(func() error { return nil })
	if err != nil {
		p.die(false)
	}
	return err
}

// client is a connection to the control socket.
type client struct {
	active  *fake
	answers chan reply
}

// dial connects to the process that serves; nil: there is none.
func (w *world) dial() *client {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range slices.Backward(w.processes) {
		if p.serving && !p.gone && p.requests != nil {
			return &client{p, make(chan reply, 10)}
		}
	}
	return nil
}

// exchange does what the function of that name does, but that it returns a refusal as it is.
func (c *client) exchange(say command, with *end) (answer reply, err error) {
	if c == nil {
		return answer, unix.ECONNREFUSED
	}
	r := request{command: say, client: c, reply: func(a reply) { c.active.do("reply"); c.answers <- a }}
	if with != nil {
		c.active.change(func() { with.owner = c.active; c.active.ends = append(c.active.ends, with) })
		r.link = with
	}
	timeout := time.After(clientTime)
	select {
	case c.active.requests <- r:
	case <-c.active.killed:
		return answer, io.EOF
	case <-timeout:
		return answer, errSilent
	}
	select {
	case answer = <-c.answers:
		return answer, nil
	case <-timeout:
		return answer, errSilent
	case <-c.active.killed:
	}
	select {
	case answer = <-c.answers: // the last thing that it did
		return answer, nil
	default:
		return answer, io.EOF
	}
}

// hangUp is the end of the client.
func (c *client) hangUp() {
	select {
	case c.active.requests <- request{command: command{Command: commandGone}, client: c}:
	case <-c.active.killed:
	case <-time.After(clientTime):
	}
}

// ask sends a command to the process that serves, and returns its reply.
func (w *world) ask(say command) (reply, error) {
	conn := w.dial()
	if conn != nil {
		defer conn.hangUp()
	}
	return conn.exchange(say, nil)
}

// beginUpgrade is what a call-out does that is killed before it says proceed.
func (w *world) beginUpgrade(version string) {
	conn := w.dial()
	ours, theirs := w.link(nil)
	if answer, err := conn.exchange(command{Command: commandUpgrade, Version: version}, ours); err != nil || answer.Error != "" {
		w.t.Errorf("upgrade: %+v, %v", answer, err)
	}
	w.begin(version, theirs, 0)
	conn.hangUp()
}

// upgrade replaces the pair, as Place.Upgrade does. between is called before the call-out
// says proceed.
func (w *world) upgrade(version string, between func()) error {
	conn := w.dial()
	if conn != nil {
		defer conn.hangUp()
	}
	ours, theirs := w.link(nil)
	answer, err := conn.exchange(command{Command: commandUpgrade, Version: version}, ours)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		theirs.close()
		return err
	}
	next := w.begin(version, theirs, 0)
	between()
	answer, err = conn.exchange(command{Command: commandProceed}, nil)
	if err != nil && w.awaitActive(next) {
		return errUnanswered
	} else if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	} else if err == nil && !w.awaitActive(next) {
		err = errors.New("it says that it has handed over, and did not")
	}
	if err != nil {
		next.die(false)
	}
	return err
}

// errUnanswered says that an upgrade came to its end, and the old process did not say so.
var errUnanswered = errors.New("there is no answer, but it serves")

// awaitActive tells whether a process gets the lock of the active one.
func (w *world) awaitActive(p *fake) bool {
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		w.mu.Lock()
		active, gone := w.locks[activeByte] == p, p.gone
		w.mu.Unlock()
		if active || gone {
			return active
		}
	}
	return false
}

// state tells who lives, what the active process reports, and what is not as it should be.
func (w *world) state() string {
	var report Report
	if answer, err := w.ask(command{Command: commandStatus}); err == nil {
		report = *answer.Report
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var parts []string
	should := [2]*fake{}
	for _, p := range w.processes {
		switch {
		case p.gone:
		case p.serving:
			should[activeByte] = p
			parts = append(parts, fmt.Sprintf("%d serves", p.pid))
			if p.secure != (report.Standby != nil) {
				parts = append(parts, fmt.Sprintf("which knows of a standby: %v", p.secure))
			}
			if !p.ready {
				parts = append(parts, "with the memory of a standby")
			}
			if report.Last != nil && !slices.Equal(p.counted, []Cause{report.Last.Cause}) {
				parts = append(parts, fmt.Sprintf("which has counted %v", p.counted))
			}
			if report.Active.PID != p.pid || report.Active.Version != p.version {
				parts = append(parts, fmt.Sprintf("which says that it is %+v", report.Active))
			}
		case report.Standby != nil && report.Standby.PID == p.pid:
			should[standbyByte] = p
			parts = append(parts, fmt.Sprintf("%d stands by", p.pid))
		default:
			parts = append(parts, fmt.Sprintf("%d is left", p.pid))
		}
		select {
		case <-p.killed:
			continue
		default:
		}
		if p.idle != 0 {
			parts = append(parts, "which has not closed what it opened")
		}
		links := 0
		for _, e := range p.ends {
			if !e.released {
				links++
			}
		}
		if links > 1 {
			parts = append(parts, fmt.Sprintf("which has %d links", links))
		}
	}
	for b, who := range []string{"active", "standby"} {
		switch holder := w.locks[b]; {
		case holder == should[b]:
		case holder == nil:
			parts = append(parts, fmt.Sprintf("nobody has the %s lock", who))
		default:
			parts = append(parts, fmt.Sprintf("%d has the %s lock", holder.pid, who))
		}
	}
	if report.Last != nil {
		parts = append(parts, fmt.Sprintf("%s, %d takeovers, %d upgrades", report.Last.Cause, report.Takeovers, report.Upgrades))
	}
	return strings.Join(parts, "; ")
}

// knowsItsLocks tells of processes that do not know which locks they have.
func knowsItsLocks(w *world) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		if has := [2]bool{w.locks[activeByte] == p, w.locks[standbyByte] == p}; (p.serving || has[standbyByte]) && p.knows != has {
			w.t.Errorf("%d has the locks %v, but as far as it knows, %v", p.pid, has, p.knows)
		}
	}
}

// end ends all, so that nothing of the bubble is left.
func (w *world) end() {
	for { // those that die may just be starting others
		synctest.Wait()
		w.mu.Lock()
		left := slices.DeleteFunc(slices.Clone(w.processes), func(p *fake) bool { return p.gone })
		w.mu.Unlock()
		if len(left) == 0 {
			time.Sleep(time.Minute) // a dead process that sleeps finds out when it wakes
			return
		}
		for _, p := range left {
			p.die(true)
		}
	}
}
