package connection_test

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
)

// orphan makes a reader wait for a request that was read by somebody who died
// before answering it. It returns what the reader gets in the end.
func (m *mounted) orphan() <-chan error {
	m.t.Helper()
	_, result := m.orphanRequest()
	return result
}

// orphanRequest does the same, and returns the request, too.
func (m *mounted) orphanRequest() ([]byte, <-chan error) {
	m.t.Helper()
	thread, result := make(chan int, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		result <- m.check()
	}()
	request := make([]byte, 64<<10)
	for deadline := time.Now().Add(forever); ; time.Sleep(time.Millisecond) {
		n, err := unix.Read(m.device, request)
		if err == nil && n > 0 {
			// Every Go program gets signals when it is busy. The kernel tells the
			// server that the request is interrupted, before any other.
			if err := unix.Tgkill(os.Getpid(), <-thread, unix.SIGURG); err != nil {
				m.t.Fatal(err)
			}
			queued := []unix.PollFd{{Fd: int32(m.device), Events: unix.POLLIN}}
			for {
				events, err := unix.Poll(queued, int(forever.Milliseconds()))
				if errors.Is(err, unix.EINTR) {
					continue // such a signal, for this thread
				}
				if events != 1 {
					m.t.Fatalf("no interrupt came: %v", err)
				}
				return request[:n], result
			}
		}
		if !errors.Is(err, unix.EAGAIN) || time.Now().After(deadline) {
			m.t.Fatalf("no request came: %v", err)
		}
	}
}

func (m *mounted) recoverWith(how func(*connection.Connection) error) {
	m.t.Helper()
	c, err := connection.New(m.device, m.agreed, m.fs, buffers(m.t, 2), new(counters.Counters), func(problem string) { m.t.Error(problem) })
	if err != nil {
		m.t.Fatal(err)
	}
	if err := how(c); err != nil {
		m.t.Fatal(err)
	}
	m.serveToTheEnd(c)
}

// serveToTheEnd serves a connection until the test ends.
func (m *mounted) serveToTheEnd(c *connection.Connection) {
	served := make(chan error, 1)
	go func() { served <- c.Serve() }()
	m.t.Cleanup(func() {
		c.Stop()
		if err := <-served; err != nil {
			m.t.Error(err)
		}
	})
}

func await(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(forever):
		t.Fatal("the reader hangs")
		return nil
	}
}

func TestRecoverAnswersWhatADeadServerHadRead(t *testing.T) {
	m := mountOne(t)
	result := m.orphan()
	m.recoverWith(func(c *connection.Connection) error { return c.Recover(m.root) })
	// Linux 6.9 and later; before, EINTR.
	if err := await(t, result); err != nil {
		t.Error(err)
	}
}

func TestWithoutResendTheReaderGetsEINTR(t *testing.T) {
	m := mountOne(t)
	result := m.orphan()
	m.recoverWith(func(c *connection.Connection) error { return c.FailOrphans(m.root) })
	if err := await(t, result); !errors.Is(err, unix.EINTR) {
		t.Errorf("the reader gets %v, want EINTR", err)
	}
	if err := m.check(); err != nil {
		t.Errorf("a reader after that: %v", err)
	}
}

// Requests that wait in the queue while nobody serves are not orphans.
func TestInterruptingOrphansSparesTheQueue(t *testing.T) {
	m := mountOne(t)
	var waiting []<-chan error
	for range 8 {
		result := make(chan error, 1)
		go func() { result <- m.check() }()
		waiting = append(waiting, result)
	}
	time.Sleep(20 * time.Millisecond) // for most of them to have queued something
	m.recoverWith(func(c *connection.Connection) error { return c.FailOrphans(m.root) })
	for _, result := range waiting {
		if err := await(t, result); err != nil {
			t.Error(err)
		}
	}
}

func TestRecoverAfterAnUnmount(t *testing.T) {
	m := mountOne(t)
	if err := unix.Unmount(m.root, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	c, err := connection.New(m.device, m.agreed, m.fs, buffers(m.t, 1), new(counters.Counters), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// The kernel accepts the order to resend, and there is nothing to read.
	if err := c.Recover(m.root); err != nil && !errors.Is(err, unix.ENODEV) {
		t.Errorf("Recover: %v", err)
	}
	if err := c.FailOrphans(m.root); !errors.Is(err, unix.ENODEV) {
		t.Errorf("without RESEND: %v, want ENODEV", err)
	}
	if err := c.Serve(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestProbe(t *testing.T) {
	m := mountOne(t)
	c, wait := m.serve()
	for range 100 {
		if !c.Probe() {
			t.Fatal("a connection that is served gives no sign of life")
		}
	}
	if err := m.check(); err != nil {
		t.Error(err)
	}
	c.Stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
	if c.Probe() {
		t.Error("a connection that has ended gives a sign of life")
	}
}
