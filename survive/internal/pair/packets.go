package pair

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// packets is a socket of packets that the runtime's poller does not know. The kernel limits the
// watches of epoll(7) for each user, whom other processes may be, and a link or a client must be
// served all the same. So each wait is a ppoll(2), for which a thread waits in the kernel.
type packets struct {
	mu sync.RWMutex // held for reading while another goroutine than the reader uses the descriptor
	fd int          // in non-blocking mode; -1: closed
}

// newPackets duplicates a descriptor, which stays the caller's.
func newPackets(file *os.File) (*packets, error) {
	kind, err := unix.GetsockoptInt(int(file.Fd()), unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET {
		return nil, fmt.Errorf("%s is no socket of packets: %w", file.Name(), os.NewSyscallError("getsockopt", err))
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &packets{fd: fd}, nil
}

// read reads a packet, with the descriptors that came with it. One goroutine may read, and
// close. At end-of-file, n is 0.
func (p *packets) read(buffer, rights []byte, deadline time.Time) (n, rightsLength int, err error) {
	for {
		n, rightsLength, _, _, err = unix.Recvmsg(p.fd, buffer, rights, unix.MSG_CMSG_CLOEXEC)
		switch err {
		case unix.EINTR:
		case unix.EAGAIN:
			if err := awaitInput(p.fd, deadline); err != nil {
				return 0, 0, err
			}
		default:
			return n, rightsLength, err
		}
	}
}

// write writes a packet, if that need not wait.
func (p *packets) write(packet []byte) (err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Write(p.fd, packet)
	}
	return err
}

// shut ends the connection, and with it a read.
func (p *packets) shut() {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_ = unix.Shutdown(p.fd, unix.SHUT_RDWR)
}

func (p *packets) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Close(p.fd)
	p.fd = -1
}

// awaitInput waits until there is something to read, which may be the end; the zero deadline is
// none.
func awaitInput(fd int, deadline time.Time) error {
	var limit *unix.Timespec
	for {
		if !deadline.IsZero() {
			left := max(time.Until(deadline), 0)
			timeout := unix.NsecToTimespec(left.Nanoseconds())
			limit = &timeout
		}
		switch n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, limit, nil); {
		case err == unix.EINTR:
		case err != nil:
			return os.NewSyscallError("ppoll", err)
		case n == 0:
			return os.ErrDeadlineExceeded
		default:
			return nil
		}
	}
}
