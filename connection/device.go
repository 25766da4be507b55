package connection

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// device is this process's own descriptor of /dev/fuse. It is in the runtime's
// poller: that is how a wait for a request can be ended.
type device struct {
	file *os.File
	raw  syscall.RawConn
	fd   int // of file, until that is closed
}

// newDevice duplicates a descriptor, which stays the caller's.
func newDevice(fd int) (*device, error) {
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("duplicate /dev/fuse", err)
	}
	d := &device{file: os.NewFile(uintptr(fd), "/dev/fuse"), fd: fd}
	if err := d.file.SetReadDeadline(time.Time{}); err != nil {
		d.file.Close()
		return nil, fmt.Errorf("/dev/fuse is not open in non-blocking mode: %w", err)
	}
	if d.raw, err = d.file.SyscallConn(); err != nil {
		d.file.Close()
		return nil, err
	}
	return d, nil
}

// wake ends a wait for a request with os.ErrDeadlineExceeded, the one that is on, or
// the next.
func (d *device) wake() {
	// It fails for a closed file only, of which nobody waits for anything.
	_ = d.file.SetReadDeadline(time.Unix(1, 0))
}

// rest makes waits possible after wake.
func (d *device) rest() { _ = d.file.SetReadDeadline(time.Time{}) }

// read reads a request. EAGAIN: there is none.
//
// Neither this nor write waits for anything, and so the scheduler is not told of
// them: it would look for other work for this processor, each time that the kernel
// lets the reader go on before us.
func (d *device) read(buffer []byte) (n int, err error) {
	return result(unix.RawSyscall(unix.SYS_READ, uintptr(d.fd), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer))))
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

// writeApart writes a packet that the kernel may take long for. Nothing that this
// process does with its other descriptors waits for it, close included.
func (d *device) writeApart(parts ...[]byte) (err error) {
	fd := -1
	controlErr := d.raw.Control(func(device uintptr) {
		fd, err = unix.FcntlInt(device, unix.F_DUPFD_CLOEXEC, 3)
	})
	if err := errors.Join(controlErr, err); err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Writev(fd, parts)
	return err
}

// whyNoWait says why the poller does not wait for requests. When the file system
// is unmounted, it may tell nothing but that (fs/fuse/dev.c, fuse_dev_poll:
// EPOLLERR); reading tells the rest. ENODEV: unmounted.
func (d *device) whyNoWait(waitErr error, buffer []byte) error {
	if _, err := d.read(buffer); err == unix.ENODEV {
		return err
	}
	return fmt.Errorf("wait for a FUSE request: %w", waitErr)
}
