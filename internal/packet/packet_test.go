package packet

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ends returns both ends of a connection.
func ends(t *testing.T) (one, other *Socket) {
	t.Helper()
	var sockets [2]*Socket
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range []*os.File{a, b} {
		if sockets[i], err = New(file); err != nil {
			t.Fatal(err)
		}
		file.Close()
		t.Cleanup(sockets[i].Close)
	}
	return sockets[0], sockets[1]
}

// A process that has no processor for a while sends and receives all the same what can be: the
// limit is that of the other's.
func TestALimitThatIsOver(t *testing.T) {
	one, other := ends(t)
	over := time.Now().Add(-time.Second)
	if _, _, err := other.Receive(over); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nothing has come: %v", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if err := one.Send(-time.Second, "hello", null); err != nil {
		t.Fatal(err)
	}
	packet, files, err := other.Receive(over)
	if string(packet) != `"hello"` || len(files) != 1 {
		t.Errorf("%q, %d descriptors, %v", packet, len(files), err)
	}
	Close(files)
}

// Who does not read is waited for as long as the limit, and no longer.
func TestALimitOfWhoDoesNotRead(t *testing.T) {
	for name, send := range map[string]func(s *Socket, limit time.Duration, message any) error{
		"Send": func(s *Socket, limit time.Duration, message any) error { return s.Send(limit, message) },
		"SendBy": func(s *Socket, limit time.Duration, message any) error {
			return s.SendBy(NoFiles, limit, message)
		},
	} {
		one, other := ends(t)
		var err error
		sent := 0
		for ; err == nil; sent++ {
			err = send(one, time.Millisecond, sent)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: after %d packets: %v", name, sent, err)
		}
		received := make(chan int)
		go func() {
			n := 0
			for ; ; n++ {
				if _, _, err := other.Receive(time.Time{}); err != nil {
					if err != io.EOF {
						t.Errorf("%s: %v", name, err)
					}
					break
				}
			}
			received <- n
		}()
		if err := send(one, time.Minute, "waits"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		one.Close()
		if n := <-received; n != sent {
			t.Errorf("%s: %d packets have come of %d", name, n, sent)
		}
	}
}

// A packet is looked at as often as one likes, without its descriptors and with them, before it is
// taken.
func TestPeekOpensNothing(t *testing.T) {
	one, other := ends(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	for _, files := range [][]*os.File{{write, write}, nil} {
		if err := one.Send(time.Minute, len(files), files...); err != nil {
			t.Fatal(err)
		}
	}
	write.Close()
	for range 2 {
		if packet, withFiles, err := other.Peek(time.Time{}); string(packet) != "2" || !withFiles || err != nil {
			t.Fatalf("%q, %v, %v", packet, withFiles, err)
		}
	}
	for most, wantMore := range map[int]bool{1: true, 2: false} {
		files, more, err := other.PeekFiles(most)
		if len(files) != most || more != wantMore || err != nil {
			t.Errorf("at most %d: %d, %v, %v", most, len(files), more, err)
		}
		Close(files)
	}
	if err := other.Skip(); err != nil {
		t.Fatal(err)
	}
	if _, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("somebody has a descriptor of what was skipped: %v", err)
	}
	if packet, withFiles, err := other.Peek(time.Time{}); string(packet) != "0" || withFiles || err != nil {
		t.Errorf("the next one: %q, %v, %v", packet, withFiles, err)
	}
	one.Close()
	if err := other.Skip(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Peek(time.Time{}); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// fullListener returns a listener with as many connections that wait as can.
func fullListener(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	raw, err := listener.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 1) })
	}
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // until there is no place
		var conn net.Conn
		if conn, err = net.Dial("unixpacket", path); err == nil {
			t.Cleanup(func() { conn.Close() })
		}
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	return listener
}

// dialLong calls Dial, which may wait for a minute, and sends its error.
func dialLong(path string) <-chan error {
	dialed := make(chan error, 1)
	go func() {
		socket, err := Dial(path, time.Now().Add(time.Minute))
		if err == nil {
			socket.Close()
		}
		dialed <- err
	}()
	return dialed
}

// Where as many connections wait as can, one more waits for its place until its limit, and gets the
// next one that becomes free.
func TestDialWaitsForAPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener := fullListener(t, path)
	if _, err := Dial(path, time.Now().Add(10*time.Millisecond)); !TimedOut(err) {
		t.Errorf("there is no place for as long as the limit: %v", err)
	}
	dialed := dialLong(path)
	select {
	case err := <-dialed:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := <-dialed; err != nil {
		t.Error(err)
	}
}
