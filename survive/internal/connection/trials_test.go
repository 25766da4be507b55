package connection_test

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/suspects"
)

// successor is a process that takes over from one that has died, or hung, as it answered the
// request of a reader, who has been sent a signal since then.
type successor struct {
	*connection.Connection
	counts  *counters.Counters
	subject suspects.Subject
	reader  <-chan error
}

func (m *mounted) succeed(deaths int, hung bool) successor {
	m.t.Helper()
	return m.succeedWith(deaths, hung, func(uint64) connection.FileSystem { return m.fs })
}

// succeedWith has the successor serve a file system, which may depend on the request's operation.
func (m *mounted) succeedWith(deaths int, hung bool, fs func(opcode uint64) connection.FileSystem) (s successor) {
	m.t.Helper()
	request, reader := m.orphanRequest()
	s.reader, s.counts, s.subject = reader, new(counters.Counters), connection.SubjectOf(request)
	now := time.Now()
	for range deaths {
		s.counts.Suspects.Note(0).Begin(s.subject, connection.FirstID(request), now.Add(-5*time.Second))
		s.counts.Suspects.Judge(hung, now)
	}
	var err error
	s.Connection, err = connection.New(m.device, m.agreed, fs(s.subject.Opcode), buffers(m.t, 2), s.counts, func(problem string) { m.t.Error(problem) })
	if err != nil {
		m.t.Fatal(err)
	}
	if err := s.Recover(m.root); err != nil {
		m.t.Fatal(err)
	}
	return s
}

// serves has it serve, until end is called.
func (s successor) serves(t *testing.T) (end func()) {
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	return func() {
		t.Helper()
		s.Stop()
		if err := await(t, served); err != nil {
			t.Error(err)
		}
	}
}

// gets waits until the reader has its answer.
func (s successor) gets(t *testing.T, want error) {
	t.Helper()
	if err := await(t, s.reader); !errors.Is(err, want) {
		t.Errorf("the reader gets %v, want %v", err, want)
	}
}

// waits checks that it has none.
func (s successor) waits(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.reader:
		t.Fatalf("it is answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
}

func skipWithoutResend(t *testing.T, m *mounted) {
	if m.agreed.Minor < 40 {
		t.Skip("requests come again on Linux 6.9 and later")
	}
}

func TestASuspectWaitsForAStandby(t *testing.T) {
	m := mountOne(t)
	skipWithoutResend(t, m)
	s := m.succeed(1, false)
	end := s.serves(t)
	s.waits(t)
	if !s.Probe() {
		t.Error("it gives no sign of life meanwhile")
	}
	s.SetStandby(true)
	s.gets(t, nil)
	end()
	if s.counts.Suspects.Anybody() || s.counts.Refused.Load() != 0 {
		t.Errorf("it is suspected after its answer; %d are refused", s.counts.Refused.Load())
	}
}

// A Holder may have a suspect answered as usual, which may end the process.
func TestASuspectThatIsHeldIsSuspectedUntilItsAnswer(t *testing.T) {
	m := mountOne(t)
	skipWithoutResend(t, m)
	var l *late
	s := m.succeedWith(1, false, func(opcode uint64) connection.FileSystem {
		l = m.late(uint32(opcode))
		l.inRoot = true
		return l
	})
	s.SetStandby(true)
	end := s.serves(t)
	l.await(t, 1)
	if v, _ := s.counts.Suspects.Look(s.subject, time.Now()); v != suspects.Suspected {
		t.Errorf("while it is held, it is %v", v)
	}
	l.mu.Lock()
	l.open = true // the kernel asks more
	for _, r := range l.held {
		l.answerer.Serve(r.Message)
	}
	l.mu.Unlock()
	s.gets(t, nil)
	end()
	if s.counts.Suspects.Anybody() {
		t.Error("it is suspected after its answer")
	}
}

func TestASuspectIsRefusedWithoutAStandby(t *testing.T) {
	connection.SetStandbyTimeout(t, 2*time.Second)
	m := mountOne(t)
	skipWithoutResend(t, m)
	s := m.succeed(1, false)
	end := s.serves(t)
	s.waits(t)
	s.gets(t, unix.EIO)
	end()
	if s.counts.Suspects.Acquit(s.subject, 77, true); s.counts.Suspects.Anybody() {
		t.Error("another such request was answered, and the subject is still suspected: the first one does not come again")
	}
}

// A process has died of a look-up in the root, where call-outs look up all volumes: nothing but
// that look-up waits for a standby.
func TestASuspectInTheRootMakesNoOthersWait(t *testing.T) {
	m := mountOne(t)
	counts, now := new(counters.Counters), time.Now()
	lookup := make([]byte, 40, 64)
	binary.NativeEndian.PutUint32(lookup[4:], 1)
	binary.NativeEndian.PutUint64(lookup[16:], 1)
	counts.Suspects.Note(0).Begin(connection.SubjectOf(append(lookup, "suspect\x00"...)), 0, now)
	counts.Suspects.Judge(false, now)
	c, err := connection.New(m.device, m.agreed, m.fs, buffers(t, 2), counts, func(problem string) { t.Error(problem) })
	if err != nil {
		t.Fatal(err)
	}
	s := successor{Connection: c, counts: counts}
	end := s.serves(t)
	look := func(name string) <-chan error {
		answer := make(chan error, 1)
		go func() { answer <- lookUp(filepath.Join(m.root, name)) }()
		return answer
	}
	for _, name := range []string{"another", filepath.Base(m.volume)} {
		select {
		case <-look(name):
		case <-time.After(4 * time.Second): // a suspect waits for five
			t.Errorf("the look-up of %s waits", name)
		}
	}
	s.reader = look("suspect")
	s.waits(t)
	s.SetStandby(true)
	s.gets(t, unix.ENOENT)
	end()
}

// A call-out waits for the daemon for seven seconds at least: a request that waits for a standby
// has its answer before.
func TestSuspectsDoNotWaitLongerThanACallOut(t *testing.T) {
	if connection.StandbyTimeout() > 5*time.Second {
		t.Errorf("they wait for %v", connection.StandbyTimeout())
	}
}

// A process that stops is about to be replaced by another one.
func TestASuspectIsAnsweredAtAHandOver(t *testing.T) {
	m := mountOne(t)
	skipWithoutResend(t, m)
	s := m.succeed(1, false)
	end := s.serves(t)
	s.waits(t)
	end()
	if s.counts.Suspects.Anybody() {
		t.Error("it is suspected after its answer")
	}
	next, wait := m.serve() // the requests of the reader that follow
	s.gets(t, nil)
	next.Stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestWhatHasEndedTwoProcessesIsRefused(t *testing.T) {
	m := mountOne(t)
	skipWithoutResend(t, m)
	s := m.succeed(2, false)
	end := s.serves(t)
	s.gets(t, unix.EIO)
	end()
	if got := s.counts.Refused.Load(); got != 1 {
		t.Errorf("%d are refused", got)
	}
}

// Whoever has waited for a process that hung, and was sent a signal, waits no more.
func TestAReaderThatHasGoneIsNotAnsweredAgain(t *testing.T) {
	m := mountOne(t)
	skipWithoutResend(t, m)
	s := m.succeed(1, true)
	end := s.serves(t)
	s.gets(t, unix.EINTR)
	end()
	if v, _ := s.counts.Suspects.Look(s.subject, time.Now()); v != suspects.Suspected {
		t.Errorf("such requests are %v", v)
	}
}

func TestSubjects(t *testing.T) {
	request := func(node, id uint64, opcode uint32, name string) []byte {
		packet := make([]byte, 40, 64)
		binary.NativeEndian.PutUint32(packet[4:], opcode)
		binary.NativeEndian.PutUint64(packet[8:], id)
		binary.NativeEndian.PutUint64(packet[16:], node)
		return append(append(packet, name...), 0)
	}
	const lookup, read, again = 1, 15, 1 << 63 // FUSE_UNIQUE_RESEND
	for _, row := range []struct {
		name       string
		one, other []byte
		same       bool
	}{
		{"it comes again", request(7, 2, read, ""), request(7, 2|again, read, ""), true},
		{"another reader's", request(7, 2, read, ""), request(7, 4, read, ""), true},
		{"of another file", request(7, 2, read, ""), request(8, 2, read, ""), false},
		{"another operation", request(7, 2, read, ""), request(7, 2, lookup, ""), false},
		{"another name in a volume", request(7, 2, lookup, "a"), request(7, 4, lookup, "b"), true},
		{"another volume", request(1, 2, lookup, "a"), request(1, 4, lookup, "b"), false},
		{"the same volume", request(1, 2, lookup, "a"), request(1, 4, lookup, "a"), true},
	} {
		if same := connection.SubjectOf(row.one) == connection.SubjectOf(row.other); same != row.same {
			t.Errorf("%s: the same suspect: %v", row.name, same)
		}
	}
	if one, other := connection.FirstID(request(7, 2, read, "")), connection.FirstID(request(7, 2|again, read, "")); one != other {
		t.Errorf("it has the ids %d and %d", one, other)
	}
}
