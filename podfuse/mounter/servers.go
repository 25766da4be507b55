package mounter

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/selinux"
)

// Server volumes have three file systems of the mounter's: see package wire. What several pods see
// is filled before anybody else has it, and then read-only.

// shared is these file systems.
type shared struct {
	*base
	*children
	renews  bool // volumes are being given the socket
	renewed bool // they have been
}

// openPods makes them, unless they are there.
func (m *shared) openPods() {
	table := new(mount.Table) // once, for all
	if err := m.makePods(table); err != nil {
		m.trouble = fmt.Errorf("make what server volumes have: %w", err)
		m.log("%v", m.trouble)
	} else if err := checkProc(table); err != nil && m.trouble == nil {
		m.trouble = err
	}
}

// checkProc tells why the pair would not see who reads a volume: it could not tell containers from
// the host, and both would find an empty directory.
func checkProc(table *mount.Table) error {
	proc, err := mount.Open("/proc")
	if err != nil {
		return err
	}
	defer proc.Close()
	info, err := table.Info(proc)
	if err != nil || info == nil {
		return err
	}
	for option := range strings.SplitSeq(info.VFSOptions, ",") {
		if value, is := strings.CutPrefix(option, "hidepid="); is && value != "off" && value != "0" {
			return fmt.Errorf("/proc is mounted with %s, which hides the readers of volumes from the driver; mount it without that option: mount -o remount,hidepid=0 /proc", option)
		}
	}
	return nil
}

func (m *shared) makePods(table *mount.Table) error {
	for _, one := range []struct {
		path string
		make func(*mount.Table) error
	}{{m.Servers(), m.makeFIFOs}, {m.Launcher(), m.makeLauncher}, {m.SocketDir(), m.makeSocket}} {
		if err := one.make(table); err != nil {
			return fmt.Errorf("%s: %w", one.path, err)
		}
	}
	return nil
}

// makeFIFOs makes the tmpfs of the FIFOs. Call-outs fill it: it stays writable.
func (m *shared) makeFIFOs(table *mount.Table) error {
	point, err := openTmpfs(m.Servers(), table)
	if err == nil && point == nil {
		point, err = m.mountTmpfs(m.Servers(), "size=1m")
	}
	closePoint(point)
	return err
}

// makeLauncher makes the file system with the launcher, unless that of this version is there. A
// volume keeps the version that it was mounted with: its launcher goes on.
func (m *shared) makeLauncher(table *mount.Table) error {
	before, err := openTmpfs(m.Launcher(), table)
	if err != nil {
		return err
	}
	defer closePoint(before)
	if before == nil {
		return m.replaceLauncher(nil, table)
	}
	version, err := os.ReadFile(launcherVersion(m.Launcher()))
	if err == nil && string(version) == m.Version {
		// EAGAIN: somebody has leased it while no mounter lived. Later pods get another one.
		if err := m.keepLauncher(m.Launcher(), before); !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
	if err := m.dropLaunchers(); err != nil {
		return err
	}
	return m.replaceLauncher(before, table)
}

// replaceLauncher makes a launcher of this version in the place of the one before, if there was
// one. It is filled aside, so that call-outs never see one that is not whole.
func (m *shared) replaceLauncher(before *mount.Point, table *mount.Table) error {
	aside := m.newLauncher()
	left, err := openTmpfs(aside, table) // of a mounter that was killed
	if err == nil && left != nil {
		err = left.Detach()
		left.Close()
	}
	if err != nil {
		return err
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	info, err := self.Stat()
	if err != nil {
		return err
	}
	const more = 1 << 20 // for directories, and pages that are not full
	made, err := m.mountTmpfs(aside, fmt.Sprintf("size=%d", info.Size()+more))
	if err != nil {
		return err
	}
	defer made.Close()
	err = errors.Join(m.fillLauncher(aside, self), made.Seal())
	if err == nil {
		err = m.keepLauncher(aside, made)
	}
	if err == nil {
		if err = m.placeLauncher(made, before); err != nil {
			m.set.Drop(launcherName(made.Device()))
		}
	}
	return errors.Join(err, made.Detach(), os.Remove(aside))
}

// placeLauncher mounts a launcher where call-outs look for it, in the place of the one before.
func (c Config) placeLauncher(made, before *mount.Point) error {
	tree, err := made.Clone()
	if err != nil {
		return err
	}
	defer tree.Close()
	if before != nil {
		return mount.Own().Do(func() error { return tree.Replace(c.Launcher(), 1, before.Device()) })
	}
	on, err := mount.Open(c.Launcher())
	if err != nil {
		return err
	}
	defer on.Close()
	return tree.Attach(on)
}

func launcherVersion(launcher string) string { return filepath.Join(launcher, "version") }

// fillLauncher makes what server volumes have in common. The socket and the FIFO are mounted on
// files.
func (c Config) fillLauncher(launcher string, self io.Reader) error {
	shared := filepath.Join(launcher, wire.Shared)
	if err := os.Mkdir(shared, 0o755); err != nil {
		return err
	}
	first := filepath.Join(shared, wire.Binary)
	target, err := os.OpenFile(first, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	// In a loop: what copies faster is no system call of the mounter's.
	_, err = io.Copy(struct{ io.Writer }{target}, struct{ io.Reader }{self})
	if err = errors.Join(err, target.Close()); err != nil {
		return err
	}
	for _, name := range wire.Proxies {
		err = errors.Join(err, os.Link(first, filepath.Join(shared, name)))
	}
	for _, name := range []string{wire.Device, wire.Socket} {
		err = errors.Join(err, os.WriteFile(filepath.Join(shared, name), nil, 0o600))
	}
	mountpoint := filepath.Join(shared, wire.Mount)
	err = errors.Join(err, os.Mkdir(mountpoint, 0o777))
	// The umask is the kubelet's.
	err = errors.Join(err, os.Chmod(shared, 0o755), os.Chmod(mountpoint, 0o777), os.Chmod(first, 0o755))
	return errors.Join(err, os.WriteFile(launcherVersion(launcher), []byte(c.Version), 0o600))
}

func launcherName(device uint64) string { return launcherPrefix + strconv.FormatUint(device, 10) }

// keepLauncher keeps the launcher that is mounted on a path open, until dropLaunchers. Root of a
// pod owns the launcher, and could take a lease on it, for which others' opens wait (man 2 fcntl,
// F_SETLEASE). The kernel refuses that while somebody else has the file open.
func (m *shared) keepLauncher(launcher string, on *mount.Point) error {
	name := launcherName(on.Device())
	if _, kept := m.set.Get(name, nil); kept {
		return nil
	}
	path := filepath.Join(launcher, wire.Shared, wire.Binary)
	number, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // it waits for no lease
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	m.set.Put(name, struct{}{}, os.NewFile(uintptr(number), path))
	return nil
}

// dropLaunchers drops the launchers that no volume has.
func (m *shared) dropLaunchers() error {
	all, err := new(mount.Table).All("tmpfs", wire.Source)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, info := range all {
		if info.Root == "/"+wire.Shared {
			used[launcherName(deviceOf(info))] = true
		}
	}
	for _, name := range m.set.Names(launcherPrefix) {
		if !used[name] {
			m.set.Drop(name)
		}
	}
	return nil
}

// podsMeta is kept with the socket.
type podsMeta struct {
	Device uint64 `json:"device"` // of the file system that it is on
}

// makeSocket makes the file system with the socket.
func (m *shared) makeSocket(table *mount.Table) error {
	point, err := openTmpfs(m.SocketDir(), table)
	if err != nil {
		return err
	}
	defer func() { closePoint(point) }()
	var meta podsMeta
	_, kept := m.set.Get(podsName, &meta)
	if !kept || point == nil || point.Device() != meta.Device {
		if point != nil {
			if err := point.Detach(); err != nil {
				return err
			}
			point.Close()
		}
		if point, err = m.mountTmpfs(m.SocketDir(), "size=64k"); err != nil { // then there is none to close
			return err
		}
		var socket *os.File
		if socket, err = m.listen(m.Socket()); err == nil {
			err = point.Seal()
		}
		if err != nil {
			return errors.Join(err, point.Detach())
		}
		meta = podsMeta{Device: point.Device()}
		m.set.Put(podsName, meta, socket)
		m.renewed = false
	}
	if m.renews || m.renewed {
		return nil
	}
	m.renews = true
	go m.renewHere(meta) // not in a turn: a path of the kubelet's may be on a server that does not answer
	return nil
}

// openTmpfs opens what is mounted on a path, nil if nothing is. It makes the directory. Something
// that is not ours is an error.
func openTmpfs(path string, table *mount.Table) (*mount.Point, error) {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	point, err := mount.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := table.Info(point)
	if err == nil && info != nil && info.Mountpoint == path {
		if info.FSType == "tmpfs" && info.Source == wire.Source {
			return point, nil
		}
		err = fmt.Errorf("a file system of type %s is mounted there; unmount it", info.FSType)
	}
	point.Close()
	return nil, err
}

func closePoint(point *mount.Point) {
	if point != nil {
		point.Close()
	}
}

// mountTmpfs mounts one on a directory, with a label that containers may use, and opens it. It has
// no flags: see [mount.Point.Seal].
func (m *shared) mountTmpfs(path, data string) (*mount.Point, error) {
	data = "mode=0755," + data
	mountWith := func(data string) error { return unix.Mount(wire.Source, path, "tmpfs", 0, data) }
	err := m.labelled(selinux.DefaultLabel, func() error { return mountWith(data + `,context="` + selinux.DefaultLabel + `"`) }, func() error { return mountWith(data) })
	if err != nil {
		return nil, &fs.PathError{Op: "mount a tmpfs on", Path: path, Err: err}
	}
	point, err := mount.Open(path)
	if err != nil {
		return nil, err
	}
	// What call-outs mount of it, or put together on it, appears nowhere else.
	if err := point.Private(); err != nil {
		defer point.Close()
		return nil, errors.Join(err, point.Detach())
	}
	return point, nil
}

// labelled makes something for containers with an SELinux label, or without: where SELinux is not
// enabled, or its policy refuses the label. Then some containers may not use it.
func (m *shared) labelled(label string, with, without func() error) error {
	if selinux.Enabled() {
		err := with()
		if err == nil {
			return nil
		}
		m.log("the SELinux label %s is refused, containers may not be able to serve: %v", label, err)
	}
	return without()
}

// mostWaiting is how many connections of pods wait to be accepted. A pod can fill that again and
// again, so that each newcomer waits for as many; see packet.Dial.
const mostWaiting = 128

// listen makes a socket at a path, for everybody.
func (m *shared) listen(path string) (*os.File, error) {
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
		err = unix.Listen(fd, mostWaiting)
	}
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return socket, nil
}

// refuseFiles has the kernel refuse the descriptors that somebody sends by a socket, or by a
// connection that is made to it from now on: EPERM. Who has such a connection closes the
// descriptors that wait in it when he closes it himself, which may take as long as the sender
// wants. Before Linux 6.16, no socket can refuse them.
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

// newLauncher is where a launcher is filled.
func (c Config) newLauncher() string { return c.Launcher() + ".new" }

// remove removes all that the mounter has in the run directory.
func (c Config) remove() error {
	err := errors.Join(os.RemoveAll(c.ServerVolumes().Dir), os.RemoveAll(c.Connections()))
	for _, path := range []string{
		c.Servers(), c.Launcher(), c.newLauncher(), c.SocketDir(), c.MounterSocket(), c.lockPath(), c.startsPath(),
	} {
		err = errors.Join(err, mount.Remove(path))
	}
	return err
}
