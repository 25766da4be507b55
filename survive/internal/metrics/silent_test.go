package metrics

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A silent client keeps no other away, and does not stay.
func TestServeDropsTheOldestOfSilentClients(t *testing.T) {
	const patience = 5 * time.Second
	address := start(t, patience)
	began := time.Now()
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
	if took := time.Since(began); took > patience {
		t.Errorf("it took %v", took)
	}
	// Those that are left are waited for, each for its time.
	if _, err := io.WriteString(silent[3*maxWaiting-1], "GET /ok HTTP/1.1\r\n\r\n"); err != nil {
		t.Error(err)
	}
	if answer, err := io.ReadAll(silent[3*maxWaiting-1]); !strings.HasSuffix(string(answer), "ok\n") {
		t.Errorf("the last one: %q, %v", answer, err)
	}
	for i, conn := range silent[2*maxWaiting+1 : 3*maxWaiting-1] {
		if _, err := bufio.NewReader(conn).ReadString('x'); err != io.EOF {
			t.Errorf("silent client %d of the rest: %v", i, err)
		}
	}
	if took := time.Since(began); took > 3*patience {
		t.Errorf("they are there %v later", took)
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
	}}, time.Minute)
	var last net.Conn
	for range 10 * maxWaiting {
		last = dial(t, listener.Addr().String())
		defer last.Close()
		io.WriteString(last, "GET /slow HTTP/1.1\r\n\r\n")
	}
	few := func() bool { return runtime.NumGoroutine()-before <= maxWaiting+maxAnswers+1 }
	for deadline := time.Now().Add(20 * time.Second); accepting.count.Load() < 10*maxWaiting || !few(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections, %d goroutines", accepting.count.Load(), runtime.NumGoroutine()-before)
		}
	}
	close(goOn)
	_ = last.SetDeadline(time.Now().Add(10 * time.Second))
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
