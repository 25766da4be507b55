// Package packettest makes what a hostile pod sends.
package packettest

import (
	"net"
	"os"
	"testing"
	"time"
)

// Lingering returns a socket whose last close(2) takes an hour: it has data for a peer that does
// not read. The end of the test ends that.
func Lingering(t testing.TB) *os.File {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(err)
	t.Cleanup(func() { listener.Close() })
	conn, err := net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
	must(err)
	defer conn.Close()
	must(conn.SetLinger(3600))
	must(conn.SetWriteBuffer(64 << 10))
	for n := 1; n > 0; {
		_ = conn.SetWriteDeadline(time.Now().Add(30 * time.Millisecond))
		n, _ = conn.Write(make([]byte, 1<<20))
	}
	file, err := conn.File()
	must(err)
	return file
}
