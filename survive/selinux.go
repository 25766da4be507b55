package survive

import (
	"errors"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/selinux"
)

// mountLabelled opens /dev/fuse and mounts it with the SELinux label, where
// SELinux is enabled. A volume that some containers may not read is better than
// none: when the label is refused, it mounts without.
func (n Node) mountLabelled(point *mount.Point) (device int, err error) {
	if n.Label != "" && selinux.CurrentMode() != selinux.Absent {
		device, err := n.mountDevice(point, n.Label)
		// The policy does not know the label, or does not let the kubelet use it.
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EACCES) {
			return device, err
		}
		n.Log("the SELinux label %s is refused, mounting without it; see %s status: %v", n.Label, n.Program, err)
	}
	return n.mountDevice(point, "")
}

// mountDevice mounts a new file system. After a failure, the descriptor is of no
// use: before Linux 5.19, the kernel looks up the label only when the file system has taken
// the descriptor.
func (n Node) mountDevice(point *mount.Point, label string) (int, error) {
	device, err := mount.OpenDevice()
	if err != nil {
		return -1, err
	}
	err = point.FUSE(device, mount.Options{Type: n.fsType(), Source: n.Name.String(), MaxRead: n.options().MaxRead, Label: label})
	if err != nil {
		unix.Close(device)
		return -1, err
	}
	return device, nil
}

// MountedLabel returns the SELinux label that the node mount was made with, ""
// for none. It costs time with the number of mounts on the node.
func (n Node) MountedLabel() (string, error) {
	point, err := openMounted(n.fsPath())
	if err != nil || point == nil {
		return "", err
	}
	defer point.Close()
	info, err := point.Info()
	if err != nil || info == nil {
		return "", err
	}
	return selinux.LabelOf(info.VFSOptions), nil
}
