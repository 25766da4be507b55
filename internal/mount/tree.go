package mount

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// moveMountBeneath has move_mount(2) put a mount beneath the topmost one
// (include/uapi/linux/mount.h; not yet in package unix).
const moveMountBeneath = 0x200

// Tree is a copy of a mount that is attached nowhere yet (open_tree(2), Linux
// 5.2 and later). It is private (mount_namespaces(7)): mounts on it do not appear on other copies
// of the same mount. Attached to a shared mount, it gets a peer group of its own.
type Tree struct{ file *os.File }

// Clone copies the mount that the directory or file is on, from there on downwards. No
// server is asked.
func (p *Point) Clone() (*Tree, error) { return p.clone(0) }

// CloneAll copies the mounts below it as well, which stay in their peer groups.
func (p *Point) CloneAll() (*Tree, error) { return p.clone(unix.AT_RECURSIVE) }

func (p *Point) clone(flags uint) (*Tree, error) {
	fd, err := unix.OpenTree(p.fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|flags)
	if err != nil {
		return nil, &fs.PathError{Op: "open_tree", Path: p.Path, Err: err}
	}
	tree := NewTree(fd, p.Path)
	private := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &private)
	if err != nil && !errors.Is(err, unix.ENOSYS) { // Linux 5.11 and before put nothing beneath it, see Replace
		tree.Close()
		return nil, &fs.PathError{Op: "mount_setattr", Path: p.Path, Err: err}
	}
	return tree, nil
}

// NewTree takes over the descriptor of a tree. name is for messages.
func NewTree(fd int, name string) *Tree { return &Tree{os.NewFile(uintptr(fd), name)} }

// File is the tree's descriptor, for a process that is to attach it.
func (t *Tree) File() *os.File { return t.file }

// Resemble makes the tree read-only or writable, and id-mapped or not, as the mount is
// that it is to replace. users opens the user namespace whose ids the replaced mount shows:
// mountinfo does not say which it is. Id-mapped mounts are of Linux 5.12 and later.
func (t *Tree) Resemble(replaced *mountinfo.Info, users func() (*os.File, error)) error {
	options := strings.Split(replaced.Options, ",")
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if slices.Contains(options, "ro") {
		attr = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	}
	idMapped := slices.Contains(options, "idmapped")
	if idMapped {
		users, err := users()
		if err != nil {
			return err
		}
		defer users.Close()
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(users.Fd())
	}
	err := unix.MountSetattr(t.fd(), "", unix.AT_EMPTY_PATH, &attr)
	if errors.Is(err, unix.ENOSYS) && !idMapped {
		return nil // Linux 5.11 and before: it is as the node mount is
	} else if err != nil {
		return &fs.PathError{Op: "mount_setattr", Path: t.file.Name(), Err: err}
	}
	return nil
}

func (t *Tree) fd() int { return int(t.file.Fd()) }

// Close releases the tree. If it was attached, the mount stays.
func (t *Tree) Close() { t.file.Close() }

// ErrGone says that the mount to replace is not there any more.
var ErrGone = errors.New("it is not mounted there any more")

// Replace puts the tree in the place of the topmost mounts on a path, of which the last
// is of a device; ErrGone, if it is not. It must run in Namespace.Do or Inside, and the
// path must be mountinfo's, which has no links in it: a link on the way was put there since,
// perhaps by a container's process, to lead us elsewhere.
//
// A container can have a FUSE file system of its own on the way, whose server does not
// answer: then the call does not end, not even when the process is killed.
func (t *Tree) Replace(path string, mounts int, device uint64) error {
	parent, err := detach(path, mounts-1, device)
	if err != nil {
		return err
	}
	defer parent.Close()
	// The last one goes when the tree is beneath it. A process that is killed in
	// between leaves something to heal; before Linux 6.5, a directory with nothing on it.
	// Meanwhile the last one is mounted on the tree. If the tree were shared, unmounting that one
	// would also unmount those on other copies of the tree, which others are replacing just now.
	there := t.attach(parent, filepath.Base(path), moveMountBeneath) == nil
	if err := unmount(path, 1); err != nil || there {
		return err
	}
	return t.attach(parent, filepath.Base(path), 0)
}

// Detach removes the topmost mounts from a path, under the conditions of Replace.
func Detach(path string, mounts int, device uint64) error {
	parent, err := detach(path, mounts, device)
	if err != nil {
		return err
	}
	parent.Close()
	return nil
}

// detach does so, and returns the directory that the path is in, which becomes the thread's.
func detach(path string, mounts int, device uint64) (parent *Point, err error) {
	parent, err = OpenBelow("/", strings.TrimPrefix(filepath.Dir(path), "/"))
	if err != nil {
		return nil, err
	}
	// umount2(2) takes no descriptor. The thread's directory is its own.
	if err = unix.Fchdir(parent.fd); err != nil {
		err = &fs.PathError{Op: "chdir", Path: parent.Path, Err: err}
	} else if err = isMountOf(parent, filepath.Base(path), device); err == nil {
		err = unmount(path, mounts)
	}
	if err != nil {
		parent.Close()
		return nil, err
	}
	return parent, nil
}

// isMountOf checks that the mount on a name in a directory is of a device.
func isMountOf(parent *Point, name string, device uint64) error {
	path := parent.Path + "/" + name
	point, err := openAt(parent.fd, name, path, 0)
	switch {
	case err == nil:
		defer point.Close()
		if point.Device() == device {
			return nil
		}
	case errors.Is(err, unix.EIO):
		// A FUSE server has answered that its root is something else, and the kernel tells nothing
		// more of it (fs/fuse/fuse_i.h, fuse_make_bad). Who has put such a one here since mountinfo
		// was read loses it.
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return &fs.PathError{Op: "replace", Path: path, Err: ErrGone}
}

// Attach mounts the tree on a directory.
func (t *Tree) Attach(on *Point) error { return t.attach(on, "", unix.MOVE_MOUNT_T_EMPTY_PATH) }

func (t *Tree) attach(to *Point, name string, flags int) error {
	if err := unix.MoveMount(t.fd(), "", to.fd, name, unix.MOVE_MOUNT_F_EMPTY_PATH|flags); err != nil {
		return &fs.PathError{Op: "move_mount " + t.file.Name() + " to", Path: filepath.Join(to.Path, name), Err: err}
	}
	return nil
}

// unmount detaches the topmost mounts from a path, whose directory is the thread's. It leaves
// those that a user name space has locked: the tree goes on top of them.
func unmount(path string, mounts int) error {
	for range mounts {
		err := unix.Unmount("./"+filepath.Base(path), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) {
			return nil
		} else if err != nil {
			return &fs.PathError{Op: "unmount", Path: path, Err: err}
		}
	}
	return nil
}
