package connection_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/survive/hold"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/suspects"
)

// linux/fuse.h, enum fuse_opcode
const (
	opGetAttr = 3
	opMkdir   = 9
)

// late is a file system that holds requests of a kind on volumes, until it lets go. The kernel
// asks for the attributes of a volume whenever a path goes through it.
type late struct {
	*fs.FS
	opcode uint32
	inRoot bool // it holds those of the root, too

	mu       sync.Mutex // guards what follows
	answerer hold.Answerer
	held     map[uint64]hold.Request
	open     bool // it holds nothing more
	begun    int
	ended    int
}

func (m *mounted) late(opcode uint32) *late {
	return &late{FS: m.fs, opcode: opcode, held: map[uint64]hold.Request{}}
}

func (l *late) Hold(r hold.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open || r.Opcode != l.opcode || r.Node == fuse.FUSE_ROOT_ID && !l.inRoot {
		return false
	}
	r.Message = slices.Clone(r.Message)
	l.held[r.ID] = r
	return true
}

func (l *late) Interrupted(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
}

func (l *late) Begin(a hold.Answerer) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answerer = a
	l.begun++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		clear(l.held)
		l.ended++
	}
}

// Lookup gives the attributes no time of validity.
func (l *late) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	status := l.FS.Lookup(cancel, header, name, out)
	out.AttrValid = 0
	return status
}

// GetAttr does so, too.
func (l *late) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	status := l.FS.GetAttr(cancel, in, out)
	out.AttrValid = 0
	return status
}

// count is how many requests are held.
func (l *late) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// await waits until so many requests are held.
func (l *late) await(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(forever); l.count() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests are held, want %d", l.count(), want)
		}
	}
}

// shut has it hold requests again.
func (l *late) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
}

// letGo answers all that is held, and holds nothing more.
func (l *late) letGo(status fuse.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = true
	for id := range l.held {
		l.answerer.Fail(id, status)
	}
	clear(l.held)
}

// serveLate has the next process serve, after whatever process did: from what that has left. stop
// has it end in good order.
func (m *mounted) serveLate(l *late) (stop func()) {
	m.t.Helper()
	_, stop = m.serveLateWith(l, new(counters.Counters))
	return stop
}

func (m *mounted) serveLateWith(l *late, counts *counters.Counters) (c *connection.Connection, stop func()) {
	m.t.Helper()
	c, err := connection.New(m.device, m.agreed, l, buffers(m.t, 2), counts, func(problem string) { m.t.Error(problem) })
	if err != nil {
		m.t.Fatal(err)
	}
	if err := c.Recover(m.root); err != nil {
		m.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- c.Serve() }()
	stop = sync.OnceFunc(func() {
		c.Stop()
		if err := await(m.t, served); err != nil && !errors.Is(err, unix.ECONNABORTED) { // by the clean-up, below
			m.t.Error(err)
		}
	})
	m.t.Cleanup(stop)
	m.t.Cleanup(func() { _ = unix.Unmount(m.root, unix.MNT_FORCE) }) // or a failed test would never end
	return c, stop
}

const (
	waiters       = 2000
	waitersOfTest = "CONNECTION_TEST_WAITERS" // the directory that they look names up in
)

// TestMain is also a process whose threads wait.
func TestMain(m *testing.M) {
	dir := os.Getenv(waitersOfTest)
	if dir == "" {
		os.Exit(m.Run())
	}
	for i := range waiters {
		go func() { _ = unix.Stat(filepath.Join(dir, strconv.Itoa(i)), new(unix.Stat_t)) }()
	}
	select {}
}

// wait starts a process whose threads wait.
func (m *mounted) wait() *exec.Cmd {
	m.t.Helper()
	process := exec.Command("/proc/self/exe")
	process.Env = append(os.Environ(), waitersOfTest+"="+m.volume)
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = process.Process.Kill() })
	return process
}

// end kills a process, which must end.
func end(t *testing.T, process *exec.Cmd) {
	t.Helper()
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { _ = process.Wait(); ended <- nil }()
	await(t, ended)
	t.Logf("it ended after %v", time.Since(begun))
}

// Whoever waits takes no worker, no slot and no buffer from others.
func TestAHeldRequestKeepsNobodyWaiting(t *testing.T) {
	m := mountOne(t)
	l := m.late(opGetAttr)
	l.open = true
	m.serveLate(l)
	fd := m.pod(m.volume)
	l.shut()
	process := m.wait()
	l.await(t, waiters)
	m.read(fd)
	end(t, process)
	l.await(t, 0)
}

func TestWhoIsKilledWhileHeldEnds(t *testing.T) {
	for name, run := range map[string]func(m *mounted, process *exec.Cmd, stop func()) *late{
		"before a take-over": func(m *mounted, process *exec.Cmd, stop func()) *late {
			_ = process.Process.Kill()
			time.Sleep(time.Millisecond) // for some of its threads to end
			stop()
			l := m.late(opGetAttr)
			m.serveLate(l)
			return l
		},
		"when nobody serves": func(m *mounted, process *exec.Cmd, stop func()) *late {
			stop()
			_ = process.Process.Kill()
			time.Sleep(20 * time.Millisecond) // for all of its threads to hear of it
			l := m.late(opGetAttr)
			m.serveLate(l)
			return l
		},
		"after a take-over": func(m *mounted, process *exec.Cmd, stop func()) *late {
			stop()
			l := m.late(opGetAttr)
			m.serveLate(l)
			l.await(m.t, waiters)
			return l
		},
		"after many": func(m *mounted, process *exec.Cmd, stop func()) (l *late) {
			for range 5 {
				stop()
				l = m.late(opGetAttr)
				stop = m.serveLate(l)
				l.await(m.t, waiters)
			}
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := mountOne(t)
			if m.agreed.Minor < 40 {
				t.Skip("requests are queued again on Linux 6.9 and later")
			}
			first := m.late(opGetAttr)
			stop := m.serveLate(first)
			process := m.wait()
			first.await(t, waiters)
			last := run(m, process, stop)
			end(t, process)
			last.await(t, 0)
		})
	}
}

// A process has died, maybe of these requests. They wait for a standby, their readers are killed
// meanwhile, and they are held afterwards.
func TestWhoIsKilledBeforeItIsHeldEnds(t *testing.T) {
	m := mountOne(t)
	skipWithoutResend(t, m)
	first := m.late(opGetAttr)
	stop := m.serveLate(first)
	process := m.wait()
	first.await(t, waiters)
	counts, now := new(counters.Counters), time.Now()
	first.mu.Lock()
	for _, r := range first.held {
		counts.Suspects.Note(0).Begin(suspects.Subject{Node: r.Node, Opcode: opGetAttr}, r.ID, now.Add(-time.Second))
	}
	first.mu.Unlock()
	counts.Suspects.Judge(false, now)
	stop()
	last := m.late(opGetAttr)
	c, _ := m.serveLateWith(last, counts)
	time.Sleep(100 * time.Millisecond) // for the requests to be read
	if n := last.count(); n > 0 {
		t.Fatalf("%d requests are held, and there is no standby", n)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // for the kernel to tell of it
	c.SetStandby(true)
	end(t, process)
	last.await(t, 0)
}

// The path leads to what is mounted there by then.
func TestAfterESTALEThePathIsWalkedAgain(t *testing.T) {
	m := mountOne(t)
	l := m.late(opGetAttr)
	m.serveLate(l)
	asked := m.ask("name")
	l.await(t, 1)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "name"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(other, m.volume, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(m.volume, unix.MNT_DETACH)
	l.letGo(fuse.Status(unix.ESTALE))
	if err := await(t, asked); err != nil {
		t.Errorf("the name in what was mounted: %v", err)
	}
}

func TestAChangeIsHeldBeforeItIsRefused(t *testing.T) {
	m := mountOne(t)
	l := m.late(opMkdir)
	m.serveLate(l)
	made := make(chan error, 1)
	go func() { made <- unix.Mkdir(filepath.Join(m.volume, "new"), 0o755) }()
	l.await(t, 1)
	l.letGo(fuse.Status(unix.ESTALE))
	if err := await(t, made); err != unix.EROFS {
		t.Errorf("mkdir: %v, want EROFS when it is not held any more", err)
	}
}

// A hand-over does not wait for what is held, and the reader notices nothing of it.
func TestStopLeavesWhatIsHeld(t *testing.T) {
	m := mountOne(t)
	if m.agreed.Minor < 40 {
		t.Skip("requests are queued again on Linux 6.9 and later")
	}
	first, second := m.late(opGetAttr), m.late(opGetAttr)
	stop := m.serveLate(first)
	asked := m.ask("name")
	first.await(t, 1)
	first.mu.Lock()
	var id uint64
	for id = range first.held {
	}
	first.mu.Unlock()
	stop()
	if first.begun != 1 || first.ended != 1 {
		t.Errorf("it was told of %d beginnings and %d ends", first.begun, first.ended)
	}
	first.answerer.Fail(id, fuse.Status(unix.ENXIO)) // is ignored
	m.serveLate(second)
	second.await(t, 1)
	second.letGo(fuse.Status(unix.ENOTCONN))
	if err := await(t, asked); err != unix.ENOTCONN {
		t.Errorf("the reader gets %v, want ENOTCONN", err)
	}
}

// hasty is a file system that answers before it says that it will.
type hasty struct{ *late }

func (h hasty) Hold(r hold.Request) bool {
	held := h.late.Hold(r)
	if held {
		h.answerer.Fail(r.ID, fuse.Status(unix.ENXIO))
		h.answerer.Fail(r.ID, fuse.Status(unix.ENXIO)) // is ignored
		h.Interrupted(r.ID)
	}
	return held
}

func TestAnAnswerMayComeAtOnce(t *testing.T) {
	m := mountOne(t)
	c, err := connection.New(m.device, m.agreed, hasty{m.late(opGetAttr)}, buffers(t, 2), new(counters.Counters), func(problem string) { t.Error(problem) })
	if err != nil {
		t.Fatal(err)
	}
	m.serveToTheEnd(c)
	for range 100 {
		if err := await(t, m.ask("name")); err != unix.ENXIO {
			t.Fatalf("the reader gets %v, want ENXIO", err)
		}
	}
}

// fstat(2) walks no path: only the usual answer ends it without an error.
func TestWhatIsHeldMayBeAnsweredAsUsual(t *testing.T) {
	m := mountOne(t)
	l := m.late(opGetAttr)
	l.open = true
	m.serveLate(l)
	dir, err := os.Open(m.volume)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l.shut()
	asked := make(chan error, 1)
	go func() { asked <- unix.Fstat(int(dir.Fd()), new(unix.Stat_t)) }()
	l.await(t, 1)
	l.mu.Lock()
	var r hold.Request
	for _, r = range l.held {
	}
	l.mu.Unlock()
	if !l.answerer.Waits(r.ID) {
		t.Error("nobody waits for it")
	}
	for range 2 { // the second one is ignored
		l.answerer.Serve(slices.Clone(r.Message))
		if l.answerer.Waits(r.ID) {
			t.Error("it is still held")
		}
	}
	if err := await(t, asked); err != nil {
		t.Errorf("the reader gets %v", err)
	}
}

// Go programs get signals all the time, and other programs do not expect EINTR of open(2).
func TestASignalThatDoesNotKillEndsNoHeldRequest(t *testing.T) {
	m := mountOne(t)
	l := m.late(opGetAttr)
	m.serveLate(l)
	asked := m.ask("name")
	l.await(t, 1)
	l.mu.Lock()
	for _, r := range l.held {
		if err := unix.Tgkill(os.Getpid(), int(r.PID), unix.SIGURG); err != nil {
			t.Error(err)
		}
	}
	l.mu.Unlock()
	select {
	case err := <-asked:
		t.Fatalf("the reader gets %v, and was to wait", err)
	case <-time.After(time.Second): // in which the kernel tells again and again
	}
	l.letGo(fuse.Status(unix.ENXIO))
	if err := await(t, asked); err != unix.ENXIO {
		t.Errorf("the reader gets %v, want ENXIO", err)
	}
}

// Of these signals the kernel makes no SIGKILL: one dumps core, and one finds another one waiting.
func TestASignalThatKillsEndsAHeldRequest(t *testing.T) {
	for name, signals := range map[string][]unix.Signal{
		"at once":                     {unix.SIGTERM},
		"with a core":                 {unix.SIGQUIT},
		"after one that does not end": {unix.SIGUSR1, unix.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			m := mountOne(t)
			l := m.late(opGetAttr)
			m.serveLate(l)
			process := exec.Command("sh", "-c", `ulimit -c 0; trap : USR1; cd "$0/name"`, m.volume)
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = process.Process.Kill() })
			l.await(t, 1)
			for _, signal := range signals {
				if err := process.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- process.Wait() }()
			_ = await(t, ended)
			if status := process.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != signals[len(signals)-1] {
				t.Errorf("it has ended: %v", process.ProcessState)
			}
			l.await(t, 0)
		})
	}
}

// Before Linux 6.9, what the process before has held is asked for again by the kernel's walk.
func TestWithoutResendTheHeldAreAskedForAgain(t *testing.T) {
	m := mountOne(t)
	first, second := m.late(opGetAttr), m.late(opGetAttr)
	stop := m.serveLate(first)
	asked := m.ask("name")
	first.await(t, 1)
	stop()
	c, err := connection.New(m.device, m.agreed, second, buffers(t, 2), new(counters.Counters), func(problem string) { t.Error(problem) })
	if err != nil {
		t.Fatal(err)
	}
	if err := c.FailOrphans(m.root); err != nil {
		t.Fatal(err)
	}
	m.serveToTheEnd(c)
	second.await(t, 1)
	second.letGo(fuse.ENOENT)
	if err := await(t, asked); err != unix.ENOENT {
		t.Errorf("the reader gets %v, want ENOENT", err)
	}
}

// The kernel aborts the connection of all readers for one request that is too old.
func TestNobodyWaitsLongerThanTheKernelDoes(t *testing.T) {
	m := mountOne(t)
	m.agreed.RequestTimeout = 1
	first, second := m.late(opGetAttr), m.late(opGetAttr)
	stop := m.serveLate(first)
	asked := m.ask("name")
	select {
	case err := <-asked:
		if err != unix.ENOTCONN {
			t.Errorf("the reader gets %v, want ENOTCONN", err)
		}
	case <-time.After(forever):
		t.Fatal("the reader waits, and the kernel aborts the connection after a second")
	}
	first.await(t, 0)
	if m.agreed.Minor < 40 {
		return // requests are queued again on Linux 6.9 and later
	}

	// Nobody knows for how long the process before has held a request: there is a new one.
	m.agreed.RequestTimeout = 3600
	stop()
	stop = m.serveLate(second)
	asked = m.ask("name")
	second.await(t, 1)
	stop()
	third := m.late(opGetAttr)
	m.serveLate(third)
	fresh := func() (is bool) {
		third.mu.Lock()
		defer third.mu.Unlock()
		for id := range third.held {
			is = id>>63 == 0 // FUSE_UNIQUE_RESEND
		}
		return is
	}
	for deadline := time.Now().Add(forever); !fresh(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what the process before had held is held again")
		}
	}
	third.letGo(fuse.ENOENT)
	if err := await(t, asked); err != unix.ENOENT {
		t.Errorf("the reader gets %v, want ENOENT", err)
	}
}

// A process can have a look at one of its threads take long. Nobody else waits for that.
func TestALookAtAThreadKeepsNobody(t *testing.T) {
	m := mountOne(t)
	looks, goOn := make(chan uint32, 1), make(chan bool)
	connection.SetIsKilled(t, func(thread uint32) bool {
		looks <- thread
		<-goOn
		return true
	})
	l := m.late(opGetAttr)
	m.serveLate(l)
	defer close(goOn)
	threads := make(chan int)
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		threads <- unix.Gettid()
		ended <- unix.Stat(m.volume, new(unix.Stat_t))
	}()
	thread := <-threads
	l.await(t, 1)
	if err := unix.Tgkill(os.Getpid(), thread, unix.SIGURG); err != nil {
		t.Fatal(err)
	}
	<-looks
	other := make(chan error, 1)
	go func() { other <- unix.Stat(filepath.Join(m.root, "nothing"), new(unix.Stat_t)) }()
	select {
	case err := <-other:
		if err != unix.ENOENT {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("another reader waits for the look")
	}
	goOn <- true
	if err := await(t, ended); err != unix.EINTR {
		t.Errorf("who is killed gets %v", err)
	}
}
