package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The kinds of message on a link; the package comment shows their order.
const (
	ready    = "ready"
	standBy  = "standBy"
	ping     = "ping"
	pong     = "pong"
	takeOver = "takeOver"
	serving  = "serving"
	leave    = "leave"    // to a standby: exit
	remember = "remember" // to a standby: the history has changed
	broken   = "broken"   // in the place of ready: why it cannot serve
)

// message is a packet on a link.
type message struct {
	Kind    string
	Process *Process `json:",omitempty"` // with ready
	History *History `json:",omitempty"` // with standBy, takeOver and remember
	Problem string   `json:",omitempty"` // with broken
}

// The signs of life are exchanged for as long as the pair lives. They were encoded
// beforehand, so that a standby makes no garbage.
var (
	pingPacket = []byte(`{"Kind":"ping"}`)
	pongPacket = []byte(`{"Kind":"pong"}`)
)

func (m message) encode() []byte {
	switch m.Kind {
	case ping:
		return pingPacket
	case pong:
		return pongPacket
	}
	other := m // m itself is not to be on the heap
	packet, err := json.Marshal(other)
	if err != nil {
		panic(err) // text, numbers and times can always be encoded
	}
	return packet
}

func decode(packet []byte) (m message, err error) {
	switch {
	case bytes.Equal(packet, pingPacket):
		return message{Kind: ping}, nil
	case bytes.Equal(packet, pongPacket):
		return message{Kind: pong}, nil
	}
	var other message // m itself is not to be on the heap
	err = json.Unmarshal(packet, &other)
	return other, err
}

// link is one end of a link.
type link struct {
	conn     *net.UnixConn
	messages chan message // closed at end-of-file
}

// maxMessage is the most bytes of a packet.
const maxMessage = 4096

// newLink takes over the descriptor of a socket and begins to read messages.
func newLink(fd int) (*link, error) {
	conn, err := unixConn(fd)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn, messages: make(chan message)}
	go l.read()
	return l, nil
}

// linkPair returns our end of a new link, and the other one.
func linkPair() (*link, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, err := newLink(fds[0])
	if err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(fds[1]), "link"), nil
}

func unixConn(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "link")
	defer file.Close() // FileConn has a duplicate
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not the link: %w", fd, err)
	}
	return conn.(*net.UnixConn), nil
}

func (l *link) read() {
	defer close(l.messages)
	for buffer := make([]byte, maxMessage); ; {
		n, err := l.conn.Read(buffer)
		if err != nil {
			return // end-of-file, or closed by us
		}
		if m, err := decode(buffer[:n]); err == nil {
			l.messages <- m
		}
	}
}

// send sends a message. An error means that the other end is gone, which its
// end-of-file tells as well, or does not read: it must not make us wait.
func (l *link) send(m message) {
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = l.conn.Write(m.encode())
}

// close ends the link. The messages that nobody read are dropped.
func (l *link) close() {
	l.conn.Close()
	go func() {
		for range l.messages {
		}
	}()
}
