package devfuse

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Open opens /dev/fuse, with more flags than open(2) needs, such as O_NONBLOCK, and returns the
// descriptor. It is no os.File, because reading the number of one makes it blocking.
func Open(flags int) (int, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/fuse: %w; load the kernel's fuse module (modprobe fuse)", err)
	}
	return fd, nil
}

// Clone opens the connection of a descriptor of /dev/fuse a second time: the flags of an open file
// are those of everybody who has it. What was read by one open file is not answered by the other,
// and ends when the first one is closed (fs/fuse/dev.c, fuse_dev_release): see [Resend]. Reading is
// blocking.
func Clone(device int) (int, error) {
	fd, err := Open(0)
	if err != nil {
		return -1, err
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
	notification := fuse.OutHeader{Status: 7} // linux/fuse.h, FUSE_NOTIFY_RESEND
	notification.Length = uint32(unsafe.Sizeof(notification))
	_, err := unix.Write(device, Bytes(&notification))
	return os.NewSyscallError("FUSE_NOTIFY_RESEND", err)
}
