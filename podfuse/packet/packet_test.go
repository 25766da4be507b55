package packet

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"
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

// A process that has no processor for a while sends and receives all the same what can be: the limit
// is that of the other's.
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
	one, other := ends(t)
	var err error
	sent := 0
	for ; err == nil; sent++ {
		err = one.Send(time.Millisecond, sent)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after %d packets: %v", sent, err)
	}
	received := make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			if _, _, err := other.Receive(time.Time{}); err != nil {
				if err != io.EOF {
					t.Error(err)
				}
				break
			}
		}
		received <- n
	}()
	if err := one.Send(time.Minute, "waits"); err != nil {
		t.Error(err)
	}
	one.Close()
	if n := <-received; n != sent {
		t.Errorf("%d packets have come of %d", n, sent)
	}
}
