package standin

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/packet"
	"example.com/pod-info-fuse/podfuse/wire"
)

// link is this process's end of the link to the mounter. All processes of the pair have the same
// end, and one of them uses it at a time.
//
// End-of-file says that the mounter and its spare are gone. The next call-out starts another one,
// and then another pair, since the descriptor is of no use any more.
type link struct {
	socket *packet.Socket

	mu     sync.Mutex // guards what follows
	queue  []sending
	closed bool
	wake   chan struct{}
}

// sending is an order, and the socket of a pod that goes with it, which it owns; nil: none.
type sending struct {
	order wire.Order
	file  *os.File
}

// openLink uses a socket, which stays the caller's.
func openLink(file *os.File) (*link, error) {
	socket, err := packet.New(file)
	if err != nil {
		return nil, fmt.Errorf("the link to the mounter: %w", err)
	}
	return &link{socket: socket, wake: make(chan struct{}, 1)}, nil
}

// begin begins to receive. event gets each packet, and the descriptor that came with it, nil for
// none. gone is called at end-of-file.
func (l *link) begin(event func(wire.Event, *os.File), gone func(error)) {
	go func() {
		if err := l.read(event); !errors.Is(err, os.ErrClosed) && !errors.Is(err, net.ErrClosed) {
			gone(err)
		}
	}()
	go l.write()
}

// send sends an order, later. It takes over the descriptor.
func (l *link) send(order wire.Order, file *os.File) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.queue = append(l.queue, sending{order, file})
	}
	l.mu.Unlock()
	if closed && file != nil {
		packet.CloseAside(file)
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
			for _, s := range queue {
				l.put(s)
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

// put sends a packet. No order is too long (wire.LongestPath): an error is the link's end, which its reader finds, too.
func (l *link) put(s sending) {
	if s.file == nil {
		_ = l.socket.Send(packet.NoLimit, s.order)
		return
	}
	defer packet.CloseAside(s.file)
	_ = l.socket.Send(packet.NoLimit, s.order, s.file)
}

func (l *link) read(event func(wire.Event, *os.File)) error {
	for {
		text, files, err := l.socket.Receive(time.Time{})
		if errors.Is(err, packet.ErrTooLong) {
			continue // of a newer mounter
		} else if err != nil {
			return err
		}
		var e wire.Event
		if packet.Decode(text, &e) == nil {
			event(e, connectionOf(files))
		}
		packet.Close(files)
	}
}

// connectionOf returns that of a dead program, nil for none: a duplicate that can be waited for.
func connectionOf(files []*os.File) *os.File {
	if len(files) == 0 {
		return nil
	}
	number, err := packet.Number(files[0])
	if err == nil {
		number, err = unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		return nil
	}
	if err := unix.SetNonblock(number, true); err != nil {
		unix.Close(number)
		return nil
	}
	return os.NewFile(uintptr(number), "the connection of a dead program")
}

// close ends the use of the link by this process.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, s := range queue {
		if s.file != nil {
			packet.CloseAside(s.file)
		}
	}
	l.socket.Close()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
