package node

import (
	"errors"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/connection"
	"example.com/pod-info-fuse/mount"
	"example.com/pod-info-fuse/selinux"
)

// mountLabelled opens /dev/fuse and mounts it with the SELinux label, where
// SELinux is enabled. A volume that some containers may not read is better than
// none: when the label is refused, it mounts without.
func (n Node) mountLabelled(point *mount.Point) (device int, err error) {
	if n.Label != "" && selinux.CurrentMode() != selinux.Absent {
		device, err := n.mountDevice(point, n.Label)
		switch {
		case errors.Is(err, unix.EINVAL): // the policy does not know the label
		case errors.Is(err, unix.EACCES): // it does not let the kubelet use it
		default:
			return device, err
		}
		n.Log("the SELinux label %s is refused, mounting without it; see pod-info-fuse selinux: %v", n.Label, err)
	}
	return n.mountDevice(point, "")
}

// mountDevice mounts a new file system. After a failure, the descriptor is of no
// use: before Linux 5.19, a label is looked up when the file system is made
// already, and has taken the descriptor.
func (n Node) mountDevice(point *mount.Point, label string) (int, error) {
	device, err := mount.OpenDevice()
	if err != nil {
		return -1, err
	}
	err = point.FUSE(device, mount.Options{Source: n.Driver.String(), MaxRead: connection.MaxRead, Label: label})
	if err != nil {
		unix.Close(device)
		return -1, err
	}
	return device, nil
}

// MountedLabel returns the SELinux label that the node mount was made with, ""
// for none. It costs time with the number of mounts on the node.
func (n Node) MountedLabel() (string, error) {
	point, err := mount.Open(n.fsPath())
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer point.Close()
	if mounted, err := point.Mounted(); err != nil || !mounted {
		return "", err
	}
	info, err := point.Info()
	if err != nil || info == nil {
		return "", err
	}
	return selinux.LabelOf(info.VFSOptions), nil
}
