// Package mount makes, inspects and removes mounts.
//
// A mount point may be dead (its FUSE server is gone: ENOTCONN) or hung (its
// server does not answer), and its server may be hostile. Nothing here asks the server
// of a mount but Point.Below, which gives up: inspection is statx(2) with
// AT_STATX_DONT_SYNC, or reading mountinfo. Callers must keep to that and never stat,
// open or list a path that may be a mount point. An O_PATH descriptor is safe.
package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Flags that every mount of a volume has: nothing in it is to be executed or trusted. A bind
// mount inherits them from the mount it is made of. The server refuses writes: see package
// connection, readonly.go.
const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// Options are a FUSE file system's mount options.
type Options struct {
	Type    string // "fuse.", followed by a name of the driver's
	Source  string
	MaxRead int    // largest read that its server answers, in bytes
	Label   string // SELinux label of all that is in it, "" for the policy's
}

// FUSE mounts a new FUSE file system on the directory. device is a descriptor
// of /dev/fuse.
// All users may access the file system, and the kernel checks permissions.
func (p *Point) FUSE(device int, o Options) error {
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read=%d", device, o.MaxRead)
	if o.Label != "" {
		data += `,context="` + o.Label + `"` // quoted, for its categories have a comma
	}
	if err := unix.Mount(o.Source, p.procPath(), o.Type, flags, data); err != nil {
		return &fs.PathError{Op: "mount a FUSE file system on", Path: p.Path, Err: err}
	}
	return nil
}

// Bind mounts the source on this directory. Neither's server is asked: both are open.
func (p *Point) Bind(source *Point) error {
	if err := unix.Mount(source.procPath(), p.procPath(), "", unix.MS_BIND, ""); err != nil {
		return &fs.PathError{Op: "bind " + source.Path + " to", Path: p.Path, Err: err}
	}
	return nil
}

// Seal makes the file system that is mounted on the directory read-only, wherever else it is
// mounted: nothing in it changes any more, whatever the flags of a mount of it are, and whoever is
// root there. It fails with EBUSY if somebody writes. The mount has no flag afterwards: one would
// be locked in a user namespace, where a runtime that asks for rw gives up.
func (p *Point) Seal() error {
	for _, flags := range []uintptr{unix.MS_REMOUNT | unix.MS_RDONLY, unix.MS_REMOUNT | unix.MS_BIND} {
		if err := unix.Mount("", p.procPath(), "", flags, ""); err != nil {
			return &fs.PathError{Op: "make read-only", Path: p.Path, Err: err}
		}
	}
	return nil
}

// Remove unmounts everything that is mounted on a directory or file of root's, however often, and
// removes it. A path that is not there is no error.
func Remove(path string) error {
	var err error
	for err == nil {
		err = unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	if errors.Is(err, unix.EINVAL) { // nothing is mounted on it any more
		err = os.Remove(path)
	} else {
		err = &fs.PathError{Op: "unmount", Path: path, Err: err}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Private has nothing that is mounted below this mount appear elsewhere.
func (p *Point) Private() error {
	if err := unix.Mount("", p.procPath(), "", unix.MS_PRIVATE, ""); err != nil {
		return &fs.PathError{Op: "make private", Path: p.Path, Err: err}
	}
	return nil
}

// Detach removes the mount from the directory. Descriptors that are open stay
// open. The call does not wait for the file system's server.
func (p *Point) Detach() error {
	if err := unix.Unmount(p.procPath(), unix.MNT_DETACH); err != nil {
		return &fs.PathError{Op: "unmount", Path: p.Path, Err: err}
	}
	return nil
}
