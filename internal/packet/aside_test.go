package packet

import (
	"os"
	"testing"
	"time"

	"example.com/pod-info-fuse/internal/packet/packettest"
)

// A pod has left a socket that lingers in the one that is closed.
func TestNobodyWaitsForWhatIsLeftInASocket(t *testing.T) {
	for name, end := range map[string]func(*Socket){
		"end":         (*Socket).End,
		"close aside": func(s *Socket) { CloseAside(s.conn) },
	} {
		one, other := ends(t)
		left := packettest.Lingering(t)
		if err := one.Send(NoLimit, "request", left); err != nil {
			t.Fatal(err)
		}
		left.Close()
		if _, withFiles, err := other.Peek(time.Now().Add(time.Minute)); !withFiles || err != nil {
			t.Errorf("%s: with files: %v, %v", name, withFiles, err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			end(other)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Errorf("%s waits for a socket that lingers", name)
		}
		// The connection has ended, and with it the thread that closed it.
		if _, _, err := one.Receive(time.Now().Add(time.Minute)); os.IsTimeout(err) || err == nil {
			t.Errorf("%s: the other end: %v", name, err)
		}
	}
}

// Nothing is left in it after that: the other end can send no more, and receives what another
// duplicate sends.
func TestAnEndedConnection(t *testing.T) {
	one, other := ends(t)
	duplicate, err := other.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	defer duplicate.Close()
	other.End()
	if err := one.Send(NoLimit, "more"); err == nil {
		t.Error("the other end can send")
	}
	third, err := New(duplicate)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if err := third.Send(NoLimit, "answer"); err != nil {
		t.Error(err)
	}
	if text, _, err := one.Receive(time.Now().Add(time.Minute)); string(text) != `"answer"` {
		t.Errorf("%q, %v", text, err)
	}
}
