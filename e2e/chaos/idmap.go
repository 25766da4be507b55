package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// works is what --expect says where a volume can be id-mapped.
const works = "works"

// mappedRoot is the user that root is mapped to in an id-mapped mount.
const mappedRoot = 100000

// idmap makes an id-mapped copy of the volume's mount, as the container runtime
// does for a pod with hostUsers: false, and reads its files.
func (t *trial) idmap(context.Context) error {
	users, err := userNamespace()
	if err != nil {
		return fmt.Errorf("make a user namespace: %w", err)
	}
	defer users.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, t.driver.volume, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree %s: %w", t.driver.volume, err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr)
	answer := works
	if errno, failed := err.(unix.Errno); failed {
		answer = unix.ErrnoName(errno)
	}
	t.report.note("mount_setattr   %s, with MOUNT_ATTR_IDMAP on a volume", answer)
	if answer != t.expect {
		return fmt.Errorf("mount_setattr with MOUNT_ATTR_IDMAP on a volume: %s, want %s", answer, t.expect)
	}
	if answer != works {
		return nil
	}
	return t.readMapped(fmt.Sprintf("/proc/self/fd/%d/", tree))
}

// userNamespace is one whose root is mappedRoot here.
func userNamespace() (*os.File, error) {
	// It begins with a process, which may end when somebody has the namespace open.
	holder := exec.Command("cat")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: mappedRoot, Size: 65536}}
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	input, err := holder.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := holder.Start(); err != nil {
		return nil, err
	}
	defer holder.Wait()
	defer input.Close()
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid))
}

// readMapped reads the files in an id-mapped copy of the volume.
func (t *trial) readMapped(dir string) error {
	for name, content := range contents(t.driver.volume) {
		fd, err := open(dir+name, 0)
		if err != nil {
			return fmt.Errorf("id-mapped %s: %w", name, err)
		}
		defer unix.Close(fd)
		if err := expect(fd, content); err != nil {
			return fmt.Errorf("id-mapped %s: %w", name, err)
		}
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Uid != mappedRoot {
			return fmt.Errorf("id-mapped %s is of user %d (%v), want %d", name, stat.Uid, err, mappedRoot)
		}
	}
	return nil
}
