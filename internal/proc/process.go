package proc

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Process is held by a descriptor (man 2 pidfd_open, Linux 5.3): another process may get its number
// when it has ended, and the descriptor stays this one's. What /proc says of the number holds if
// the process is alive afterwards.
type Process struct {
	PID  int
	File *os.File // non-blocking, so that the runtime waits for it with all others
}

// Open opens a process. The error is ESRCH if there is none.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
	}
	return Held(pid, fd), nil
}

// Held is the process of a descriptor, which it takes over.
func Held(pid, fd int) *Process {
	_ = unix.SetNonblock(fd, true)
	return &Process{pid, os.NewFile(uintptr(fd), "process")}
}

// Close closes the descriptor. p may be nil.
func (p *Process) Close() {
	if p != nil {
		p.File.Close()
	}
}

// Alive returns an error if the process has ended. The kernel tells before the process is reaped.
func (p *Process) Alive() error {
	return p.use(func(fd int) error { return AliveAt(fd, p.PID) })
}

// AliveAt does the same for a descriptor of a process.
func AliveAt(fd, pid int) error {
	ended, err := Polled(fd, unix.POLLIN, 0)
	if ended {
		return fmt.Errorf("process %d: %w", pid, unix.ESRCH)
	}
	return err
}

// Ended waits for the end of the process until a limit, and tells whether it has ended.
func (p *Process) Ended(limit time.Duration) (ended bool) {
	_ = p.use(func(fd int) (err error) {
		ended, err = Polled(fd, unix.POLLIN, limit)
		return err
	})
	return ended
}

// Polled waits until there is one of some events at a descriptor, and tells whether there is;
// POLLERR is told in any case (man 2 poll).
func Polled(fd int, events int16, limit time.Duration) (bool, error) {
	for deadline := time.Now().Add(limit); ; {
		left := unix.NsecToTimespec(max(time.Until(deadline), 0).Nanoseconds())
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: events}}, &left, nil)
		if err != unix.EINTR {
			return n > 0, os.NewSyscallError("ppoll", err)
		}
	}
}

// Kill sends SIGKILL to this process, and to no other that gets its number. One that has ended is
// no error.
func (p *Process) Kill() error {
	err := p.use(func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) })
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	return nil
}

// Take duplicates a descriptor of the process (man 2 pidfd_getfd, Linux 5.6). It needs
// CAP_SYS_PTRACE, and no help from the process.
func (p *Process) Take(number int) (fd int, err error) {
	err = p.use(func(pidfd int) error {
		fd, err = unix.PidfdGetfd(pidfd, number, 0)
		return err
	})
	return fd, err
}

func (p *Process) use(f func(fd int) error) error {
	raw, err := p.File.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(controlErr, err)
}
