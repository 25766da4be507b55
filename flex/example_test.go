package flex_test

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
)

// scratch gives a pod an empty tmpfs of one mebibyte.
type scratch struct{}

// Init: the kubelet gives the files to the pod's fsGroup, the container runtime labels them.
func (scratch) Init() (flex.Capabilities, error) {
	return flex.Capabilities{FSGroup: true, SELinuxRelabel: true}, nil
}

func (scratch) Mount(dir string, options flex.Options) error {
	for key := range options.Own() {
		return fmt.Errorf("option %q is not known", key)
	}
	return unix.Mount("scratch", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m")
}

// Unmount may be called again for a volume that is gone already.
func (scratch) Unmount(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// The main function of a driver is one call.
func Example() {
	flex.Main(func() (flex.Driver, error) { return scratch{}, nil })
}
