package connection

import (
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
)

// device is this process's own descriptor of /dev/fuse, in non-blocking mode, with the means
// to wait for a request.
//
// The mode is a flag of the open file. All processes that were ever given the connection share
// that file, and each can clear the flag. A read would then wait in the kernel, where Go's runtime,
// which is not told of reads, waits for it at its next collection of garbage, and with it the
// process. So nobody reads before poll(2) says that there is a request. Only a request that
// another process takes in that moment leaves a read waiting. For that, the flag is set, and not
// asked for, when a process opens the device and in each wake. The wait ends at the next signal:
// Go's runtime sends SIGURG, every 10 ms, to a thread that runs for so long (runtime/proc.go,
// retake).
//
// It waits by ppoll(2): the kernel limits the watches of epoll(7) for each user, whom other
// processes may be, and who takes over must be able to wait.
//
// The runtime's poller could wait as well, and end a wait. But it would have the scheduler
// look for other work before each wait and after it, which takes longer than an
// answer; and a worker has nothing else to do.
type device struct {
	fd     int
	woken  int // eventfd(2)
	polled [2]unix.PollFd
	held   *held // nil: no request is held
	trials *trials

	mu     sync.RWMutex // held for reading while wake uses a descriptor
	closed bool
}

// newDevice duplicates a descriptor, which stays the caller's.
func newDevice(fd int) (*device, error) {
	d := &device{fd: -1, woken: -1}
	if err := d.open(fd); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *device) open(fd int) (err error) {
	if d.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return os.NewSyscallError("duplicate /dev/fuse", err)
	}
	if err := d.unblock(); err != nil {
		return os.NewSyscallError("set /dev/fuse to non-blocking mode", err)
	}
	if d.woken, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	d.polled = [2]unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}, {Fd: int32(d.woken), Events: unix.POLLIN}}
	return nil
}

// close closes all descriptors, once. Nobody may be reading or waiting.
func (d *device) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	for _, fd := range []int{d.woken, d.fd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// forever is no limit for await.
const forever = -1

// await waits until there is something to read, which may be the connection's end; until wake
// is called; or until the limit. One goroutine may wait. It may return too early.
func (d *device) await(limit time.Duration) error {
	var timeout *unix.Timespec
	if limit != forever {
		t := unix.NsecToTimespec((limit + time.Millisecond).Nanoseconds())
		timeout = &t
	}
	n, err := unix.Ppoll(d.polled[:], timeout, nil)
	if err != nil && err != unix.EINTR {
		return os.NewSyscallError("ppoll", err)
	}
	if n > 0 && d.polled[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(d.woken, count[:]) // makes it unreadable again
	}
	return nil
}

// unblock sets the open file to non-blocking mode.
func (d *device) unblock() error {
	_, err := unix.FcntlInt(uintptr(d.fd), unix.F_SETFL, unix.O_NONBLOCK)
	return err
}

// wake ends a wait, the present one or the next.
func (d *device) wake() {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if !d.closed {
		_ = d.unblock()
		one := [8]byte{1} // any number but 0 and the largest
		_, _ = unix.Write(d.woken, one[:])
	}
}

// read reads a request. EAGAIN: there is none.
//
// Neither this nor write waits for anything, and so the scheduler is not told of
// them: it would look for other work for this processor, each time that the kernel
// lets the reader go on before us.
func (d *device) read(buffer []byte) (n int, err error) {
	ready, now := unix.PollFd{Fd: int32(d.fd), Events: unix.POLLIN}, unix.Timespec{}
	switch n, err := result(unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&ready)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)); {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, unix.EAGAIN
	}
	return result(unix.RawSyscall(unix.SYS_READ, uintptr(d.fd), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer))))
}

// next reads the next request that is to be answered. EAGAIN: there is none. errHeld: there was
// one, and a Holder answers it, or it waits among the trials.
//
// FUSE_INTERRUPT goes no further: no other answer takes long enough to be interrupted. go-fuse
// answers that it does not know the request. The kernel would then ask again at once, before
// anything else (fs/fuse/dev.c, fuse_dev_do_read), and for ever if a dead server had read that
// request.
func (d *device) next(buffer []byte) (n int, err error) {
	for {
		n, err = d.read(buffer)
		switch {
		case err == unix.ENOENT, err == unix.EINTR:
			// ENOENT: the request was interrupted while it was read
			// (fs/fuse/dev.c, fuse_dev_do_read).
		case err == nil && devfuse.Header(buffer).Opcode == devfuse.OpInterrupt:
			d.held.interrupt(buffer[:n], d.trials.interrupt(buffer[:n]))
		case err == nil && d.trials.take(buffer[:n], false):
			return 0, errHeld
		case err == nil && d.held.take(buffer[:n]):
			return 0, errHeld
		default:
			return n, err
		}
	}
}

// nextWithin reads the next request, and waits for it until the limit.
func (d *device) nextWithin(limit time.Duration, buffer []byte) (n int, err error) {
	for deadline := time.Now().Add(limit); ; {
		n, err := d.next(buffer)
		if err != unix.EAGAIN {
			return n, os.NewSyscallError("read a FUSE request", err)
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, fmt.Errorf("wait for a FUSE request: %w after %v", unix.ETIMEDOUT, limit)
		}
		if err := d.await(left); err != nil {
			return 0, err
		}
	}
}

// write writes a reply or a notification. ENOENT: nobody waits for the reply any more.
func (d *device) write(packet []byte) error {
	_, err := result(unix.RawSyscall(unix.SYS_WRITE, uintptr(d.fd), uintptr(unsafe.Pointer(&packet[0])), uintptr(len(packet))))
	return err
}

func result(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
