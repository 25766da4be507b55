package pair

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The signs of life are understood by versions that decode them, and say the same as
// what those send.
func TestSignsOfLifeAreMessagesLikeOthers(t *testing.T) {
	for _, kind := range []string{ping, pong} {
		m := message{Kind: kind}
		encoded, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.encode(); string(got) != string(encoded) {
			t.Errorf("%s is %s, want %s", kind, got, encoded)
		}
		if n := testing.AllocsPerRun(100, func() {
			if got, err := decode(m.encode()); got != m || err != nil {
				t.Errorf("%s is understood as %+v, %v", kind, got, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
	}
}

// What an error says fits into a packet, whatever it is made of.
func TestAMessageWithALongProblemArrives(t *testing.T) {
	ours, other := bothEnds(t, t.Logf)
	for _, text := range []string{strings.Repeat("/long", 2000), strings.Repeat("\x01", 10000), strings.Repeat("ž", 5000)} {
		other.send(message{Kind: broken, Problem: brief(text)})
		select {
		case m := <-ours.messages:
			if !strings.HasPrefix(text, strings.TrimSuffix(m.Problem, "...")) || len(m.Problem) < 500 {
				t.Errorf("%.20q... arrives as %q", text, m.Problem)
			}
		case <-time.After(time.Minute):
			t.Errorf("%.20q... does not arrive", text)
		}
	}
}

func TestAMessageThatIsLostIsLogged(t *testing.T) {
	for name, send := range map[string]func(*socket){
		"too long to be sent":    func(l *socket) { l.send(message{Kind: broken, Problem: strings.Repeat("x", maxMessage)}) },
		"too long to be read":    func(l *socket) { _ = l.conn.Send(make([]byte, maxMessage+1)) },
		"not JSON":               func(l *socket) { _ = l.conn.Send([]byte("hello")) },
		"more than a socket has": func(l *socket) { l.send(message{Kind: broken, Problem: strings.Repeat("x", 1<<22)}) },
	} {
		logged := make(chan string, 1)
		log := func(format string, args ...any) { logged <- fmt.Sprintf(format, args...) }
		_, other := bothEnds(t, log)
		send(other)
		select {
		case line := <-logged:
			t.Logf("%s: %s", name, line)
		case <-time.After(time.Minute):
			t.Errorf("%s: nothing is logged", name)
		}
	}
}

// A process that sends ping after ping and reads none of the answers must not keep the one that
// serves from everything else.
func TestAPeerThatDoesNotReadKeepsNobodyWaiting(t *testing.T) {
	ours, theirs, err := linkPair(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	defer ours.close()
	begun := time.Now()
	for range 1000 {
		ours.send(message{Kind: pong})
		if took := time.Since(begun); took > 500*time.Millisecond {
			t.Fatalf("it waits: %v", took)
		}
	}
}

func bothEnds(t *testing.T, log Logger) (ours, other *socket) {
	t.Helper()
	ours, theirs, err := linkPair(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ours.close)
	if other, err = newLink(theirs, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.close)
	return ours, other
}

// Root's side of a downgrade: the version that serves speaks what this one does not know.
func TestAPairThatSpeaksANewerFormatIsRefused(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "control")
	listener, err := net.Listen("unixpacket", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, maxMessage))
			fmt.Fprintf(conn, `{"Format":%d,"Report":{}}`, format+1)
		}
	}()
	at := Place{Socket: socket}
	_, ask := at.Ask(time.Second)
	for name, err := range map[string]error{"status": ask, "stop": at.Stop()} {
		if err == nil || !strings.Contains(err.Error(), "too new") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
