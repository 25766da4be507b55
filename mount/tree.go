package mount

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

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

// Attach mounts the tree on a path of the calling thread's mount namespace.
func (t *Tree) Attach(path string) error {
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &fs.PathError{Op: "move_mount " + t.source + " to", Path: path, Err: err}
	}
	return nil
}
