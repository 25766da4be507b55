package mount

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Point is a directory that may be a mount point, held open so that it stays
// the same one whatever happens to its path. If something is mounted on it, it
// is the top of the stack. Below and OpenFile may also open a file.
type Point struct {
	Path string
	fd   int
	stat unix.Statx_t
	bad  bool
}

// ErrLink says that a path leads to a symbolic link where a directory must be.
var ErrLink = errors.New("is a symbolic link, not a directory")

// Open opens the directory at path. It follows links in the middle of the
// path, as the kubelet's root may be one, but not at its end. The error is fs.ErrNotExist if
// there is none.
//
// A mount whose root is bad (see [Point.Bad]) is opened all the same. For that Open reads /proc:
// it must not be called on a thread that has entered a container's namespace.
func Open(path string) (*Point, error) { return openTop(unix.AT_FDCWD, path, path) }

// Open opens a directory in this one, as the function Open does. It follows no link.
func (p *Point) Open(name string) (*Point, error) {
	return openTop(p.fd, name, filepath.Join(p.Path, name))
}

func openTop(directory int, name, path string) (*Point, error) {
	point, err := openDirAt(directory, name, path, 0)
	if errors.Is(err, unix.EIO) {
		return openBad(directory, name, path, err)
	}
	return point, err
}

// openBad opens the root of a mount of which statx(2) says nothing but why. What is mounted there
// is known without its server: fdinfo has the number of the mount, and mountinfo the rest.
func openBad(directory int, name, path string, why error) (*Point, error) {
	fd, err := unix.Openat(directory, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	point := &Point{Path: path, fd: fd, bad: true}
	info, err := point.rootInfo()
	if err != nil || info == nil {
		point.Close()
		return nil, errors.Join(why, err)
	}
	point.stat = unix.Statx_t{
		Mode: unix.S_IFDIR, Mnt_id: uint64(info.ID), Attributes: unix.STATX_ATTR_MOUNT_ROOT,
		Dev_major: uint32(info.Major), Dev_minor: uint32(info.Minor),
	}
	return point, nil
}

// rootInfo returns what mountinfo says of the mount that the point is on, if it is its root.
func (p *Point) rootInfo() (info *mountinfo.Info, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", p.fd))
	if err != nil {
		return nil, err
	}
	id := 0
	for line := range strings.Lines(string(text)) {
		if number, is := strings.CutPrefix(line, "mnt_id:"); is {
			if id, err = strconv.Atoi(strings.TrimSpace(number)); err != nil {
				return nil, err
			}
		}
	}
	all, err := Own().mounts(mostTable, func(i *mountinfo.Info) (skip, stop bool) { return i.ID != id, i.ID == id })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	// The kernel marks the path of what was dropped from its cache (fs/d_path.c).
	at, err := os.Readlink(p.procPath())
	if at = strings.TrimSuffix(at, " (deleted)"); at != strings.TrimSuffix(all[0].Mountpoint, " (deleted)") {
		return nil, err
	}
	return all[0], err
}

// Bad tells whether a FUSE server has said that its mount's root is something else, as no honest
// server does. The kernel answers EIO for that root from then on, until it is unmounted
// (fs/fuse/fuse_i.h, fuse_make_bad). What is mounted of the rest of the file system goes on.
func (p *Point) Bad() bool { return p.bad }

// OpenFile opens what is at path, which may be a file. It follows links as Open does.
func OpenFile(path string) (*Point, error) { return openAt(unix.AT_FDCWD, path, path, 0) }

// OpenBelow opens the directory at the path rest below base. It follows links in
// base, and none after it, which somebody in a container may have made.
func OpenBelow(base, rest string) (*Point, error) {
	top, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	defer unix.Close(top)
	return openDirAt(top, cmp.Or(rest, "."), filepath.Join(base, rest), unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
}

// Real returns the path of a directory as mountinfo has it, without links.
func Real(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return os.Readlink((&Point{fd: fd}).procPath())
}

// openDirAt opens the directory at a path in another one, as openAt does.
func openDirAt(directory int, name, path string, resolve uint64) (*Point, error) {
	point, err := openAt(directory, name, path, resolve)
	if err != nil {
		return nil, err
	}
	switch {
	case point.is(unix.S_IFDIR):
		return point, nil
	case point.is(unix.S_IFLNK):
		err = ErrLink
	default:
		err = unix.ENOTDIR
	}
	point.Close()
	return nil, &fs.PathError{Op: "open", Path: path, Err: err}
}

// openAt opens what is at a path in a directory, whatever its type. resolve says where the way to
// it must not lead (man 2 openat2); path is for messages. It asks no server about what it has
// opened.
func openAt(directory int, name, path string, resolve uint64) (*Point, error) {
	fd, err := openat2(directory, name, unix.O_PATH|unix.O_NOFOLLOW, resolve)
	if errors.Is(err, unix.ELOOP) && resolve != 0 {
		err = fmt.Errorf("a part of it %w", ErrLink)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	point := &Point{Path: path, fd: fd}
	const want = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_MNT_ID
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, want, &point.stat)
	if err == nil && point.stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		err = errors.New("this kernel does not tell what is mounted; the driver needs Linux 5.8")
	}
	if err != nil {
		point.Close()
		return nil, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return point, nil
}

// MakeDir makes a directory in this one, and reports whether it did: false, if something of
// that name is there already, which is not looked at.
func (p *Point) MakeDir(name string) (made bool, err error) {
	err = unix.Mkdirat(p.fd, name, 0o750) // as the kubelet makes those of volumes
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return false, &fs.PathError{Op: "mkdir", Path: p.Path + "/" + name, Err: err}
	}
	return err == nil, nil
}

// RemoveDir removes an empty directory from this one, on which nothing is mounted. One that is
// not there is no error.
func (p *Point) RemoveDir(name string) error {
	err := unix.Unlinkat(p.fd, name, unix.AT_REMOVEDIR)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: p.Path + "/" + name, Err: err}
	}
	return nil
}

// is tells whether it is of a type, such as unix.S_IFDIR.
func (p *Point) is(fileType uint16) bool { return p.stat.Mode&unix.S_IFMT == fileType }

// Close releases the descriptor. A second call does nothing: the number may be another file's by
// then.
func (p *Point) Close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// Device identifies the mounted file system.
func (p *Point) Device() uint64 { return unix.Mkdev(p.stat.Dev_major, p.stat.Dev_minor) }

// Mounted tells whether something is mounted on the directory.
func (p *Point) Mounted() bool { return p.stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 }

// View is what a mount namespace has of a directory.
type View struct {
	Mounted       bool // something is mounted on it
	device, inode uint64
	propagation   string // of the mount that the directory is on, as mountinfo has it
}

// Look looks at a directory in the mount namespace of this thread. It follows links as Open does.
func Look(path string) (v View, err error) {
	point, err := Open(path)
	if err != nil {
		return v, err
	}
	defer point.Close()
	info, err := point.Info()
	if err == nil && info == nil { // unmounted just now
		err = &fs.PathError{Op: "look at", Path: path, Err: ErrNotMounted}
	}
	if err != nil {
		return v, err
	}
	return View{point.Mounted(), point.Device(), point.stat.Ino, info.Optional}, nil
}

// IsSame tells whether it is the same directory.
func (v View) IsSame(other View) bool { return v.device == other.device && v.inode == other.inode }

// Reaches tells whether what is mounted on the directory is mounted in the other namespace, too:
// the mount there is in the same peer group, or a slave of it (man 5 proc_pid_mountinfo, "optional
// fields"). Of a slave's slave, mountinfo does not tell; the answer is no.
func (v View) Reaches(other View) bool {
	_, group, shared := strings.Cut(v.propagation, "shared:")
	group, _, _ = strings.Cut(group, " ")
	return shared && slices.ContainsFunc(strings.Fields(other.propagation), func(tag string) bool { return strings.HasSuffix(tag, ":"+group) })
}

// Info returns what mountinfo says of the mount on the directory, nil when it
// is gone. It costs time with the number of mounts on the node.
func (p *Point) Info() (*mountinfo.Info, error) { return new(Table).Info(p) }

// Descriptor is the open directory, until Close.
func (p *Point) Descriptor() int { return p.fd }

// procPath is a path that leads to the open directory, for system calls that
// take no descriptor.
func (p *Point) procPath() string { return fmt.Sprintf("/proc/self/fd/%d", p.fd) }
