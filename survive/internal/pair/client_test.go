package pair

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet/packettest"
)

// A process that was taken over answers with a descriptor whose last close(2) takes an hour.
func TestAnAnswerWithADescriptor(t *testing.T) {
	at := Place{Socket: filepath.Join(t.TempDir(), "control")}
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: at.Socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	lingers := packettest.Lingering(t)
	go func() {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		_, _ = conn.Read(make([]byte, maxMessage))
		_, _, _ = conn.WriteMsgUnix([]byte(`{"Report":{}}`), unix.UnixRights(int(lingers.Fd())), nil)
		lingers.Close() // the one in the packet is the last
	}()
	done := make(chan error, 1)
	go func() {
		_, err := at.Ask(30 * time.Second)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.As(err, new(Refusal)) {
			t.Errorf("the error is %v, want a Refusal", err)
		}
	case <-time.After(4 * time.Second):
		t.Error("root waits for a descriptor that it was sent")
	}
}
