package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotLocal says that a path leads to a file system that may never answer.
var ErrNotLocal = errors.New("is not on a local file system")

// OpenLocal opens a directory, and asks only file systems that answer by themselves: the one
// that / is on, and local ones. Another file system may never answer, and nothing ends such a
// wait. So [ErrNotLocal] refuses a path that leads to one, or that has a link to another
// mount.
func OpenLocal(path string) (*os.File, error) { return openLocal(path, unix.O_RDONLY|unix.O_DIRECTORY) }

// OpenLocalInput is OpenLocal for a directory or a regular file.
func OpenLocalInput(path string) (*os.File, error) {
	file, err := openLocal(path, unix.O_RDONLY|unix.O_NONBLOCK) // a FIFO would make us wait
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = fmt.Errorf("%s is neither a regular file nor a directory", path)
	}
	if err == nil {
		err = unix.SetNonblock(int(file.Fd()), false)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func openLocal(path string, flags uint64) (*os.File, error) {
	if path == "" {
		return nil, &fs.PathError{Op: "open", Err: unix.ENOENT}
	}
	fd, err := openat2(unix.AT_FDCWD, path, flags, unix.RESOLVE_NO_XDEV)
	if errors.Is(err, unix.EXDEV) {
		fd, err = openBelowMount(path, flags)
	}
	if errors.Is(err, ErrNotLocal) {
		err = fmt.Errorf("%w; configure the path of a directory on a local one, without such a link", err)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openBelowMount opens what is not on the mount of /. Links are followed on its
// own mount only.
func openBelowMount(path string, flags uint64) (fd int, err error) {
	point, err := Own().LocalMount(path)
	if err != nil {
		return -1, err
	}
	top, err := openat2(unix.AT_FDCWD, point, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, err
	}
	defer unix.Close(top)
	fd, err = openat2(top, "."+strings.TrimPrefix(path, strings.TrimSuffix(point, "/")), flags, unix.RESOLVE_NO_XDEV)
	if errors.Is(err, unix.EXDEV) {
		err = fmt.Errorf("it perhaps %w: a link on the way leads to another mount", ErrNotLocal)
	}
	return fd, err
}

func openat2(directory int, path string, flags, resolve uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	return unix.Openat2(directory, path, &how)
}

// isLocal tells whether the kernel alone answers for a file system of a type, with a disk or
// memory of this node. An overlay counts as local whatever its layers are on, and so does a file
// system on a loop device or a disk of another machine: Flatcar has /etc on an overlay.
func isLocal(fsType string) bool {
	switch fsType {
	case "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "bcachefs", "f2fs", "jfs", "nilfs2", "reiserfs",
		"ubifs", "jffs2", "vfat", "exfat", "ntfs3", "iso9660", "udf",
		"tmpfs", "ramfs", "rootfs", "devtmpfs", "overlay", "aufs", "squashfs", "erofs":
		return true
	}
	return false
}
