package connection

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Handshake answers the FUSE_INIT that the kernel sends when a file system has
// been mounted with this descriptor of /dev/fuse. It waits no longer than the
// timeout.
func Handshake(device int, fs fuse.RawFileSystem, timeout time.Duration) (Params, error) {
	request := make([]byte, requestSize())
	n, err := readWithin(device, request, timeout)
	if err != nil {
		return Params{}, os.NewSyscallError("read FUSE_INIT", err)
	}
	reply := make([]byte, replySize())
	length, agreed, initErr := newProtocol(fs, func(string) {}).initialise(request[:n], reply)
	if length > 0 {
		if _, err := unix.Write(device, reply[:length]); err != nil {
			return Params{}, os.NewSyscallError("write the reply to FUSE_INIT", err)
		}
	}
	return agreed, initErr
}

func readWithin(device int, buffer []byte, timeout time.Duration) (int, error) {
	deadline := time.Now().Add(timeout)
	for {
		n, err := unix.Read(device, buffer)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return n, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, fmt.Errorf("%w after %v", unix.ETIMEDOUT, timeout)
		}
		wait := []unix.PollFd{{Fd: int32(device), Events: unix.POLLIN}}
		if _, err := unix.Poll(wait, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
	}
}
