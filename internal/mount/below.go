package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrSilent says that the server of a mount has not answered in time. Its connection was
// aborted.
var ErrSilent = errors.New("its server does not answer")

// ErrNotMounted says that nothing is mounted where a mount was to be asked.
var ErrNotMounted = errors.New("is not mounted")

// ErrRefused says that a server has answered with something that no mount of ours has.
var ErrRefused = errors.New("is no directory or regular file of the mount")

// ErrBad says that the server of a mount has answered that the mount's root is something else.
var ErrBad = errors.New("its server says that its root is no directory")

// Below opens the directory or the regular file at a path below the root of a FUSE mount,
// to bind it or to copy its mount. The server is asked for each name, and may be
// hostile: no link is followed, and its answers cannot lead off its own mount.
//
// Before that, it looks names in the mount's root up. Their answers are ignored; the first
// failure ends the look-ups.
//
// A server that says nothing within the limit loses its connection (see Abort): there
// is no other way out of a request that it has read. The error is ErrSilent then. It is ErrBad
// where the mount's root is bad (see [Point.Bad]), perhaps since this request.
func (p *Point) Below(path string, limit time.Duration, names ...string) (*Point, error) {
	if !p.Mounted() {
		return nil, &fs.PathError{Op: "open " + path + " below", Path: p.Path, Err: ErrNotMounted}
	}
	var found *Point
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range names {
			if p.lookUp(name) != nil {
				break
			}
		}
		found, err = p.below(strings.TrimPrefix(path, "/"))
	}()
	// Small steps: if the machine is suspended meanwhile, its server is as well.
	const steps = 100
	for range steps {
		select {
		case <-done:
			if errors.Is(err, unix.EIO) && errors.Is(p.ask(), unix.EIO) {
				err = fmt.Errorf("%w: %w", ErrBad, err)
			}
			return found, err
		case <-time.After(limit / steps):
		}
	}
	silent := &fs.PathError{Op: "open " + path + " below", Path: p.Path, Err: ErrSilent}
	if err := p.Abort(); err != nil {
		return nil, fmt.Errorf("%w; %w", silent, err)
	}
	if <-done; err == nil {
		found.Close()
	}
	return nil, silent
}

// lookUp has the kernel look a name up, and nothing else.
func (p *Point) lookUp(name string) error {
	var stat unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	return unix.Statx(p.fd, name, flags, unix.STATX_TYPE, &stat)
}

// ask asks the kernel, and no server, about the directory itself.
func (p *Point) ask() error {
	var stat unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	return unix.Statx(p.fd, "", flags, unix.STATX_TYPE, &stat)
}

// below opens a directory or a regular file of this mount, but not one that is mounted on it.
func (p *Point) below(rest string) (*Point, error) {
	path := p.Path + "/" + rest
	found, err := openAt(p.fd, rest, path, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	switch {
	case errors.Is(err, ErrLink), errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return nil, err
	case found.is(unix.S_IFLNK):
		err = fmt.Errorf("%w: %w", ErrRefused, ErrLink)
	case !found.is(unix.S_IFDIR) && !found.is(unix.S_IFREG):
		err = ErrRefused
	default:
		return found, nil
	}
	found.Close()
	return nil, &fs.PathError{Op: "open", Path: path, Err: err}
}

// Abort ends the connection of the FUSE mount on the directory, as its server's end
// does: readers that wait for an answer get ECONNABORTED, all later ones ENOTCONN. That
// holds for every mount of the file system, and also while a server still has the
// connection open that is a zombie, waits in the kernel itself, or is hostile.
//
// It is the only end of a request that a server has read: SIGKILL is none
// (fs/fuse/dev.c, request_wait_answer). The mount must be in this process's mount
// namespace (fs/namespace.c, can_umount), and stays.
func (p *Point) Abort() error {
	// MNT_FORCE aborts (fs/fuse/inode.c, fuse_umount_begin), before anything else is
	// done, so that it does not wait for readers. Then the answer is that the
	// mount is busy: our descriptor is on it.
	err := unix.Unmount(p.procPath(), unix.MNT_FORCE)
	if err != nil && !errors.Is(err, unix.EBUSY) {
		return &fs.PathError{Op: "abort the connection of", Path: p.Path, Err: err}
	}
	return nil
}
