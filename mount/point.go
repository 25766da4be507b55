package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Point is a directory that may be a mount point, held open so that it stays
// the same one whatever happens to its path. If something is mounted on it, it
// is the top of the stack.
type Point struct {
	Path string
	fd   int
	stat unix.Statx_t
}

// ErrLink says that a path leads to a symbolic link where a directory must be.
var ErrLink = errors.New("is a symbolic link, not a directory")

// Open opens the directory at path. It follows links in the middle of the
// path, as the kubelet's root may be one, but not at its end. The error is
// fs.ErrNotExist when there is nothing.
func Open(path string) (*Point, error) { return openAt(unix.AT_FDCWD, path, path) }

// OpenBelow opens the directory at the path rest below base. It follows links in
// base, and in nothing after it, whoever may have put them there: each directory
// on the way is opened in the one before.
func OpenBelow(base, rest string) (*Point, error) {
	fd, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	point := &Point{Path: base, fd: fd}
	for name := range strings.SplitSeq(rest, "/") {
		if name == "" {
			continue
		}
		next, err := openAt(point.fd, name, point.Path+"/"+name)
		point.Close()
		if err != nil {
			return nil, err
		}
		point = next
	}
	return point, nil
}

// openAt opens the directory called name in another one; path is for messages.
func openAt(directory int, name, path string) (*Point, error) {
	fd, err := unix.Openat(directory, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	point := &Point{Path: path, fd: fd}
	const want = unix.STATX_TYPE | unix.STATX_MNT_ID
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, want, &point.stat)
	if err != nil {
		point.Close()
		return nil, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	switch point.stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return point, nil
	case unix.S_IFLNK:
		err = ErrLink
	default:
		err = unix.ENOTDIR
	}
	point.Close()
	return nil, &fs.PathError{Op: "open", Path: path, Err: err}
}

// Close releases the descriptor.
func (p *Point) Close() { unix.Close(p.fd) }

// Device identifies the mounted file system.
func (p *Point) Device() uint64 {
	return unix.Mkdev(p.stat.Dev_major, p.stat.Dev_minor)
}

// Mounted tells whether something is mounted on the directory.
func (p *Point) Mounted() (bool, error) {
	if p.stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return p.stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	// Before Linux 5.8, only mountinfo tells.
	info, err := p.Info()
	return info != nil, err
}

// mountID tells the mount that the directory is in, since Linux 5.8.
func (p *Point) mountID() (id uint64, ok bool) {
	return p.stat.Mnt_id, p.stat.Mask&unix.STATX_MNT_ID != 0
}

// Info returns what mountinfo says of the mount on the directory, nil when it
// is gone. It costs time with the number of mounts on the node.
func (p *Point) Info() (*mountinfo.Info, error) { return new(Table).Info(p) }

// realPath is the path with the links in its middle resolved.
func (p *Point) realPath() string {
	path, err := os.Readlink(p.procPath())
	if err != nil {
		return p.Path
	}
	return path
}

// procPath is a path that leads to the open directory, for system calls that
// take no descriptor.
func (p *Point) procPath() string { return fmt.Sprintf("/proc/self/fd/%d", p.fd) }
