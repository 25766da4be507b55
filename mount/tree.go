package mount

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// moveMountBeneath has move_mount(2) put a mount beneath the topmost one
// (include/uapi/linux/mount.h; not yet in package unix).
const moveMountBeneath = 0x200

// Tree is a copy of a mount that is attached nowhere yet (open_tree(2), Linux
// 5.2 and later).
type Tree struct {
	source string
	fd     int
}

// CloneTree copies the mount of source, a directory or a file. It asks the file
// system of the source.
func CloneTree(source string) (*Tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, &fs.PathError{Op: "open_tree", Path: source, Err: err}
	}
	return &Tree{source, fd}, nil
}

// Close releases the tree. If it was attached, the mount stays.
func (t *Tree) Close() { unix.Close(t.fd) }

// Replace puts the tree in the place of the topmost mounts on a path. It must run
// in Namespace.Do, and the path must be mountinfo's, which has no links in it: one
// that is met on the way was put there since, by somebody in a container perhaps,
// to lead us elsewhere.
func (t *Tree) Replace(path string, mounts int) error {
	parent, err := OpenBelow("/", strings.TrimPrefix(filepath.Dir(path), "/"))
	if err != nil {
		return err
	}
	defer parent.Close()
	// umount2(2) takes no descriptor. The thread's directory is its own.
	if err := unix.Fchdir(parent.fd); err != nil {
		return &fs.PathError{Op: "chdir", Path: parent.Path, Err: err}
	}
	name := "./" + filepath.Base(path)
	if err := unmount(name, mounts-1); err != nil {
		return &fs.PathError{Op: "unmount", Path: path, Err: err}
	}
	// The last one goes when the tree is beneath it. Whoever is killed in between leaves
	// something to heal; before Linux 6.5, a directory with nothing on it.
	there := t.attach(parent, name, moveMountBeneath) == nil
	if err := unmount(name, 1); err != nil {
		return &fs.PathError{Op: "unmount", Path: path, Err: err}
	}
	if there {
		return nil
	}
	if err := t.attach(parent, name, 0); err != nil {
		return &fs.PathError{Op: "move_mount " + t.source + " to", Path: path, Err: err}
	}
	return nil
}

func (t *Tree) attach(parent *Point, name string, flags int) error {
	return unix.MoveMount(t.fd, "", parent.fd, name, unix.MOVE_MOUNT_F_EMPTY_PATH|flags)
}

// unmount detaches the topmost mounts from a path, but for those that a user name space
// has locked: the tree goes on top of them.
func unmount(name string, mounts int) error {
	for range mounts {
		err := unix.Unmount(name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
