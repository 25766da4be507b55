package connection

import (
	"os"
	"time"
)

// Handshake answers the FUSE_INIT that the kernel sends when a file system has
// been mounted with this descriptor of /dev/fuse. It waits no longer than the timeout.
func Handshake(device int, fs FileSystem, o Options, timeout time.Duration) (Params, error) {
	if err := o.check(); err != nil {
		return Params{}, err
	}
	d, err := newDevice(device)
	if err != nil {
		return Params{}, err
	}
	defer d.close()
	request, reply := make([]byte, requestSize), make([]byte, o.replySize())
	n, err := d.nextWithin(timeout, request)
	if err != nil {
		return Params{}, err
	}
	length, agreed, initErr := newProtocol(fs, o, func(string) {}).initialise(request[:n], reply)
	if length > 0 {
		if err := d.write(reply[:length]); err != nil {
			return Params{}, os.NewSyscallError("write the reply to FUSE_INIT", err)
		}
	}
	agreed.RequestTimeout = kernelTimeout()
	if _, is := fs.(sizeVarier); is {
		agreed.Marks = agreed.canMark()
	}
	return agreed, initErr
}
