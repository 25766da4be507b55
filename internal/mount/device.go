package mount

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenDevice opens /dev/fuse in non-blocking mode and returns the descriptor.
// It is no os.File, because reading the number of one makes it blocking.
func OpenDevice() (int, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/fuse: %w; load the kernel's fuse module (modprobe fuse)", err)
	}
	return fd, nil
}

// CloneDevice opens the connection of a descriptor of /dev/fuse a second time: the flags of an open
// file are those of everybody who has it. What was read by one open file is not answered by the
// other, and ends when the first one is closed (fs/fuse/dev.c, fuse_dev_release): see [Resend].
// Reading is blocking.
func CloneDevice(device int) (int, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/dev/fuse", Err: err}
	}
	const clone = 0x8004e500 // linux/fuse.h, FUSE_DEV_IOC_CLONE
	if err := unix.IoctlSetPointerInt(fd, clone, device); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("FUSE_DEV_IOC_CLONE", err)
	}
	return fd, nil
}

// Resend has the kernel queue again what was read of a connection and not answered, by whatever
// open file. The error is EINVAL before Linux 6.9.
func Resend(device int) error {
	const notifyResend = 7    // linux/fuse.h, FUSE_NOTIFY_RESEND
	var notification [16]byte // struct fuse_out_header
	binary.NativeEndian.PutUint32(notification[0:], uint32(len(notification)))
	binary.NativeEndian.PutUint32(notification[4:], notifyResend)
	_, err := unix.Write(device, notification[:])
	return os.NewSyscallError("FUSE_NOTIFY_RESEND", err)
}
