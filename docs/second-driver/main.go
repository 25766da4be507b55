// Command scratch is a FlexVolume driver that gives a pod an empty tmpfs of the
// size that it asks for.
package main

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
)

func main() { flex.Main(scratch{}) }

type scratch struct{}

// Init: nothing to attach, nothing to resize; the kubelet shall give the files
// to the pod's fsGroup, and the container runtime shall label them.
func (scratch) Init() (flex.Capabilities, error) {
	return flex.Capabilities{FSGroup: true, SELinuxRelabel: true}, nil
}

// Mount mounts a tmpfs. The pod's author must say "mebibytes" in the options.
func (scratch) Mount(dir string, options flex.Options) error {
	var size uint64
	for key, value := range options.Own() {
		if key != "mebibytes" {
			return fmt.Errorf("option %q is not known", key)
		}
		var err error
		if size, err = strconv.ParseUint(value, 10, 16); err != nil {
			return fmt.Errorf("option %q is not a number of mebibytes", key)
		}
	}
	if size == 0 {
		return errors.New(`option "mebibytes" is missing or 0`)
	}
	return unix.Mount("scratch", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%dm", size))
}

// Unmount may be called again for a volume that is gone already.
func (scratch) Unmount(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
