package metrics

import (
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Silent clients keep no other away: the oldest of them are dropped.
func TestServeDropsTheOldestOfSilentClients(t *testing.T) {
	address := start(t, 2*forever) // longer than the test waits for what it is sent
	var silent []net.Conn
	for range 3 * maxWaiting {
		conn := dial(t, address)
		defer conn.Close()
		silent = append(silent, conn)
		if answer := say(t, address, "GET /ok HTTP/1.1\r\n\r\n"); !strings.HasSuffix(answer, "ok\n") {
			t.Fatalf("beside %d: %q", len(silent), answer)
		}
	}
	for i, conn := range silent[:2*maxWaiting] {
		if answer, err := io.ReadAll(conn); len(answer) > 0 || err != nil {
			t.Errorf("silent client %d: %q, %v", i, answer, err)
		}
	}
	// Those that are left are waited for.
	last := silent[3*maxWaiting-1]
	if _, err := io.WriteString(last, "GET /ok HTTP/1.1\r\n\r\n"); err != nil {
		t.Error(err)
	}
	if answer, err := io.ReadAll(last); !strings.HasSuffix(string(answer), "ok\n") {
		t.Errorf("the last one: %q, %v", answer, err)
	}
}

// A silent client does not stay, though nobody needs its place.
func TestServeDropsASilentClientAfterItsTime(t *testing.T) {
	t.Parallel()
	const patience = 300 * time.Millisecond
	began := time.Now()
	answer, err := io.ReadAll(dial(t, start(t, patience)))
	if took := time.Since(began); len(answer) > 0 || err != nil || took < patience {
		t.Errorf("after %v: %q, %v", took, answer, err)
	}
}

// Pages that take their time are made for a few at a time, and of those who wait for
// them, few stay.
func TestServeMakesFewPagesAtATime(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	before := runtime.NumGoroutine()
	goOn := make(chan struct{})
	var making atomic.Int32
	accepting := &counted{Listener: listener}
	go serve(accepting, map[string]func() Page{"/slow": func() Page {
		if n := making.Add(1); n > maxAnswers {
			t.Errorf("%d pages at a time", n)
		}
		<-goOn
		making.Add(-1)
		return OK()
	}}, 3*forever)
	var last net.Conn
	for range 10 * maxWaiting {
		last = dial(t, listener.Addr().String())
		defer last.Close()
		io.WriteString(last, "GET /slow HTTP/1.1\r\n\r\n")
	}
	few := func() bool { return runtime.NumGoroutine()-before <= maxWaiting+maxAnswers+1 }
	for deadline := time.Now().Add(forever); accepting.count.Load() < 10*maxWaiting || !few(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections, %d goroutines", accepting.count.Load(), runtime.NumGoroutine()-before)
		}
	}
	close(goOn)
	_ = last.SetDeadline(time.Now().Add(forever))
	if answer, err := io.ReadAll(last); !strings.HasSuffix(string(answer), "ok\n") {
		t.Errorf("the last one: %q, %v", answer, err)
	}
}

// counted counts the connections that have been accepted.
type counted struct {
	net.Listener
	count atomic.Int32
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	c.count.Add(1)
	return conn, err
}
