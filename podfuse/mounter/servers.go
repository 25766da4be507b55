package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/podfuse/packet"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/selinux"
)

// The servers' tmpfs has a directory for each server volume, which call-outs make. All of them
// have a link to one socket, on which the pair listens.

// openPods makes the tmpfs and the socket, unless they are there.
func (m *mounter) openPods() {
	if err := m.makePods(); err != nil {
		m.trouble = fmt.Errorf("make %s: %w", m.Servers(), err)
		m.log("%v", m.trouble)
	}
}

func (m *mounter) makePods() error {
	there, err := m.mountServers()
	if err != nil {
		return err
	}
	if socket, kept := m.set.Get(podsName, nil); kept && there {
		return refuseFiles(socket) // that of a version before does not
	}
	socket, err := m.listen(m.Socket())
	if err != nil {
		return err
	}
	m.set.Put(podsName, struct{}{}, socket)
	// Those that are there have a link to one that nobody listens on any more.
	ids, err := m.ServerVolumes().IDs()
	for _, id := range ids {
		linkErr := link(m.Socket(), filepath.Join(m.ServerDir(id), wire.Socket))
		if !errors.Is(linkErr, fs.ErrNotExist) {
			err = errors.Join(err, linkErr)
		}
	}
	return err
}

// mountServers reports whether the tmpfs was there.
func (m *mounter) mountServers() (there bool, err error) {
	path := m.Servers()
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	point, err := mount.Open(path)
	if err != nil {
		return false, err
	}
	defer point.Close()
	info, err := point.Info()
	if err == nil && info != nil && info.Mountpoint == path {
		if info.FSType != "tmpfs" || info.Source != wire.Source {
			return false, fmt.Errorf("a file system of type %s is mounted there; unmount it", info.FSType)
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	const data = "mode=0755,size=64m"
	mountWith := func(data string) error {
		return unix.Mount(wire.Source, path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, data)
	}
	err = m.labelled(selinux.DefaultLabel, func() error { return mountWith(data + `,context="` + selinux.DefaultLabel + `"`) }, func() error { return mountWith(data) })
	if err != nil {
		return false, &fs.PathError{Op: "mount a tmpfs on", Path: path, Err: err}
	}
	return false, nil
}

// labelled makes something for containers with an SELinux label, or without: where SELinux is not
// enabled, or its policy refuses the label. Then some containers may not use it.
func (m *mounter) labelled(label string, with, without func() error) error {
	if selinux.Enabled() {
		err := with()
		if err == nil {
			return nil
		}
		m.log("the SELinux label %s is refused, containers may not be able to serve: %v", label, err)
	}
	return without()
}

// listen makes a socket at a path, for everybody.
func (m *mounter) listen(path string) (*os.File, error) {
	var fd int
	create := func() (err error) {
		fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		return os.NewSyscallError("socket", err)
	}
	err := m.labelled(selinux.SocketLabel, func() error { return selinux.LabelSocket(selinux.SocketLabel, create) }, create)
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), path)
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(dir)
		_ = os.Remove(path)
		// The path itself could be too long for an address.
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(dir) + "/" + filepath.Base(path)})
	}
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	if err == nil {
		err = refuseFiles(socket)
	}
	if err == nil {
		err = unix.Listen(fd, 4096)
	}
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return socket, nil
}

// refuseFiles has the kernel refuse the descriptors that somebody sends by a socket, or by a connection
// that is made to it from now on: EPERM. Who has such a connection closes the descriptors that wait in it when
// he closes it himself, which may take as long as the sender wants. Before Linux 6.16, no socket can refuse
// them.
func refuseFiles(socket *os.File) error {
	number, err := packet.Number(socket)
	if err == nil {
		err = unix.SetsockoptInt(number, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0)
	}
	runtime.KeepAlive(socket)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return nil
	}
	return os.NewSyscallError("refuse descriptors", err)
}

// link makes a hard link, in the place of one that may be there.
func link(from, to string) error {
	temporary := filepath.Join(filepath.Dir(to), ".new-"+filepath.Base(to))
	_ = os.Remove(temporary)
	if err := os.Link(from, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, to)
}

// remove removes all that the mounter has in the run directory.
func (c Config) remove() error {
	err := unix.Unmount(c.Servers(), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		err = nil
	}
	err = errors.Join(err, os.RemoveAll(c.ServerVolumes().Dir))
	for _, path := range []string{c.Servers(), c.MounterSocket(), c.lockPath(), c.startsPath()} {
		if removeErr := os.Remove(path); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}
