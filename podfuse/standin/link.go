package standin

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/later"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
)

// link is this process's end of the link to the mounter. All processes of the pair have the same
// end, and one of them uses it at a time.
//
// End-of-file says that the mounter and its spare are gone. The next call-out starts another one,
// and then another pair, since the descriptor is of no use any more.
type link struct {
	socket *packet.Socket
	by     int // the descriptor by which alone this process can send others
	orders later.Queue[struct{}]
}

// openLink uses a socket, which stays the caller's, and open.
func openLink(file *os.File) (*link, error) {
	socket, err := packet.New(file)
	if err != nil {
		return nil, fmt.Errorf("the link to the mounter: %w", err)
	}
	by, err := packet.Number(file)
	if err != nil {
		socket.Close()
		return nil, err
	}
	return &link{socket: socket, by: by}, nil
}

// begin begins to receive. event gets each packet, and the descriptor that came with it, nil for
// none. gone is called at end-of-file.
func (l *link) begin(event func(wire.Event, *os.File), gone func(error)) {
	go func() {
		if err := l.read(event); !errors.Is(err, os.ErrClosed) && !errors.Is(err, net.ErrClosed) {
			gone(err)
		}
	}()
}

// send sends an order, later, and takes over the descriptors. A mounter that does not read keeps
// only the queue waiting.
func (l *link) send(order wire.Order, files ...*os.File) {
	l.orders.Add(struct{}{}, func() {
		// No order is too long (wire.LongestPath): an error is the link's end, which its reader
		// finds, too.
		_ = l.socket.SendBy(l.by, packet.NoLimit, order, files...)
		for _, file := range files {
			packet.CloseAside(file)
		}
	})
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

// close ends the use of the link by this process. What is in the queue is closed with it.
func (l *link) close() { l.socket.Close() }
