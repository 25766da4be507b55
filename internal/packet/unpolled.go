package packet

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// Unpolled is one end of a connection that the runtime's poller does not know. The kernel limits
// the watches of epoll(7) for each user, whom other processes may be, and a link or a client of the
// pair's must be served all the same. So each wait is a ppoll(2), for which a thread waits in the
// kernel. It sends no descriptors.
type Unpolled struct {
	mu sync.RWMutex // held for reading while another goroutine than the reader uses the descriptor
	fd int          // in non-blocking mode; -1: closed
}

// NewUnpolled duplicates a descriptor, which stays the caller's.
func NewUnpolled(file *os.File) (*Unpolled, error) {
	number, err := check(file)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &Unpolled{fd: fd}, nil
}

// Accept waits for a connection to a socket that listens.
func Accept(listener *os.File) (*Unpolled, error) {
	for number := int(listener.Fd()); ; {
		// Other processes have the open file as well, and its mode.
		if err := unix.SetNonblock(number, true); err != nil {
			return nil, err
		}
		fd, _, err := unix.Accept4(number, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == unix.EAGAIN {
			err = awaitInput(number, time.Time{})
		} else if err == nil {
			return &Unpolled{fd: fd}, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Receive is [Socket.Receive] with the caller's buffers, so that it makes no garbage: one for the
// text, and one for as many descriptors as the caller wants. One goroutine may receive, and close.
func (u *Unpolled) Receive(deadline time.Time, buffer, rights []byte) (packet []byte, files []*os.File, err error) {
	for {
		r, err := receive(u.fd, buffer, rights, 0)
		if err != unix.EAGAIN {
			return r.parse(buffer, rights, err)
		}
		if err := awaitInput(u.fd, deadline); err != nil {
			return nil, nil, err
		}
	}
}

// Send sends a packet, if that need not wait.
func (u *Unpolled) Send(packet []byte) (err error) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Write(u.fd, packet)
	}
	return err
}

// Shut ends the connection, and with it a Receive.
func (u *Unpolled) Shut() {
	u.mu.RLock()
	defer u.mu.RUnlock()
	_ = unix.Shutdown(u.fd, unix.SHUT_RDWR)
}

// Close closes the descriptor.
func (u *Unpolled) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	unix.Close(u.fd)
	u.fd = -1
}

// awaitInput waits until there is something to read, which may be the end; the zero deadline is
// none.
func awaitInput(fd int, deadline time.Time) error {
	limit := NoLimit
	if !deadline.IsZero() {
		limit = time.Until(deadline)
	}
	there, err := proc.Polled(fd, unix.POLLIN, limit)
	if err == nil && !there {
		err = os.ErrDeadlineExceeded
	}
	return err
}
