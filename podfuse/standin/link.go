package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
)

// link is this process's end of the link to the mounter. All processes of the pair have the same
// end, and one of them uses it at a time.
//
// End-of-file says that the mounter and its spare are gone. The next call-out starts another one,
// and then another pair, since the descriptor is of no use any more.
type link struct {
	conn *net.UnixConn

	mu     sync.Mutex // guards what follows
	queue  []packet
	closed bool
	wake   chan struct{}
}

// packet is an order, and the descriptor that goes with it, which it owns; -1: none.
type packet struct {
	order wire.Order
	fd    int
}

// mostDescriptors is how many descriptors are received with a packet: one more than any has.
const mostDescriptors = 2

// openLink uses a socket, which stays the caller's.
func openLink(socket *os.File) (*link, error) {
	conn, err := net.FileConn(socket)
	if err != nil {
		return nil, fmt.Errorf("the link to the mounter: %w", err)
	}
	packets, is := conn.(*net.UnixConn)
	if !is {
		conn.Close()
		return nil, fmt.Errorf("the link to the mounter is of type %T", conn)
	}
	return &link{conn: packets, wake: make(chan struct{}, 1)}, nil
}

// begin begins to receive. event gets each packet, and the descriptor that came with it, nil for
// none. gone is called at end-of-file.
func (l *link) begin(event func(wire.Event, *os.File), gone func(error)) {
	go func() {
		if err := l.read(event); !errors.Is(err, net.ErrClosed) {
			gone(err)
		}
	}()
	go l.write()
}

// send sends an order, later. It takes over the descriptor.
func (l *link) send(order wire.Order, fd int) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.queue = append(l.queue, packet{order, fd})
	}
	l.mu.Unlock()
	if closed && fd >= 0 {
		unix.Close(fd)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write sends what is in the queue, until the link is closed. A mounter that does not read keeps
// only this goroutine waiting.
func (l *link) write() {
	for range l.wake {
		for {
			l.mu.Lock()
			queue := l.queue
			l.queue = nil
			l.mu.Unlock()
			if len(queue) == 0 {
				break
			}
			for _, p := range queue {
				l.put(p)
			}
		}
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return
		}
	}
}

// put sends a packet. An error is the link's end, which its reader finds, too.
func (l *link) put(p packet) {
	var rights []byte
	if p.fd >= 0 {
		defer unix.Close(p.fd)
		rights = unix.UnixRights(p.fd)
	}
	if data, err := wire.Encode(p.order); err == nil { // it is of bounded parts
		_, _, _ = l.conn.WriteMsgUnix(data, rights, nil)
	}
}

func (l *link) read(event func(wire.Event, *os.File)) error {
	buffer, rights := make([]byte, wire.MaxPacket), make([]byte, unix.CmsgSpace(4*mostDescriptors))
	for {
		n, rightsLength, _, _, err := l.conn.ReadMsgUnix(buffer, rights)
		if err != nil {
			return err
		}
		file := received(rights[:rightsLength])
		if n == 0 {
			return errors.New("end of file")
		}
		var e wire.Event
		if err := json.Unmarshal(buffer[:n], &e); err != nil {
			if file != nil {
				file.Close()
			}
			continue // of a newer mounter
		}
		event(e, file)
	}
}

// received returns the descriptor that came with a packet, nil for none, and closes others.
func received(rights []byte) (file *os.File) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			if file != nil || unix.SetNonblock(fd, true) != nil {
				unix.Close(fd)
				continue
			}
			file = os.NewFile(uintptr(fd), "what came from the mounter")
		}
	}
	return file
}

// close ends the use of the link by this process.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, p := range queue {
		if p.fd >= 0 {
			unix.Close(p.fd)
		}
	}
	l.conn.Close()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
