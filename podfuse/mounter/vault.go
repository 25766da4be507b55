package mounter

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
)

// The vault is a mount namespace that no process is in: its descriptor keeps it. Its root is a
// tmpfs, and a program's file system is mounted on two directories of that: as the program wants
// it, and read-only. It is where a connection can be aborted (umount2(2), MNT_FORCE), whatever
// became of its other mounts.
//
// The vault belongs to a user namespace of its own. Containers get what is mounted in a copy of the
// vault, which a child makes for itself (inCopy). When a mount namespace is copied for another user
// namespace, the kernel locks the flags of its mounts (fs/namespace.c, lock_mnt_tree): nobody can
// clear ro, nosuid or nodev of such a mount any more. move_mount(2) alone locks nothing, and
// whoever makes himself a user namespace is root of its mounts.

// openVault makes the vault, unless there is one.
func (m *base) openVault() {
	if _, there := m.set.Get(vaultName, nil); there {
		return
	}
	vault, err := newVault(m.RunDir)
	if err != nil {
		m.trouble = fmt.Errorf("make a mount namespace for programs: %w", err)
		m.log("%v", m.trouble)
		return
	}
	m.set.Put(vaultName, struct{}{}, vault)
}

// newVault makes one. dir is a directory on which its root is mounted, which nobody else sees.
func newVault(dir string) (vault *os.File, err error) {
	if vault, err = ofOtherUsers(); err != nil {
		return nil, fmt.Errorf("make a user namespace, so that nobody in a container can change the flags of a mount: %w; "+
			"raise user.max_user_namespaces (sysctl) where it is 0", err)
	}
	err = mount.Inside(int(vault.Fd()), func() error {
		for _, step := range []struct {
			what string
			do   func() error
		}{
			{"make all mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
			{"mount a tmpfs", func() error {
				return unix.Mount("vault", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=16m")
			}},
			{"chdir", func() error { return unix.Chdir(dir) }},
			{"pivot_root", func() error { return unix.PivotRoot(".", ".") }},
			{"unmount the node's mounts", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		} {
			if err := step.do(); err != nil {
				return fmt.Errorf("%s: %w", step.what, err)
			}
		}
		return nil
	})
	if err != nil {
		vault.Close()
		return nil, err
	}
	return vault, nil
}

// ofOtherUsers makes a copy of our mount namespace for a user namespace of its own. Only a process
// can be begun in a new user namespace, and no thread enter one: so that is a child without an
// errand, which ends at once.
func ofOtherUsers() (*os.File, error) {
	// By a number of another PID namespace, the vault would be somebody's mount namespace.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.Join(errors.New("/proc is of another PID namespace"), err)
	}
	c, err := newChild(unix.CLONE_NEWUSER | unix.CLONE_NEWNS)
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = c.process.Kill()
		c.close()
	}()
	return os.Open(fmt.Sprintf("/proc/%d/ns/mnt", c.process.Pid))
}

// vault returns a duplicate of its descriptor.
func (m *base) vault() (vault *os.File, err error) {
	m.do(func() {
		if file, there := m.set.Get(vaultName, nil); there {
			vault, err = duplicate(file)
		} else {
			err = cmp.Or(m.trouble, errNoVault)
		}
	})
	return vault, err
}

func duplicate(file *os.File) (*os.File, error) {
	number, err := packet.Number(file)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// resend is what a test replaces by Linux before 6.9.
var resend = devfuse.Resend

// separate gives the connection of a dead program an open file of its own, which the caller puts
// into the set. A process that hides may have the first one, and its flags with it: it could have
// the pair wait in a read. The pair must not have been given the first one: what it had read by
// that would end when that is closed. It returns an error before Linux 6.9, where nobody but the
// program can answer what that had read.
func (m *programs) separate(c *connection) error {
	number, err := packet.Number(c.file)
	own := -1
	if err == nil {
		own, err = devfuse.Clone(number)
		runtime.KeepAlive(c.file)
	}
	if err == nil {
		if err = resend(own); err == nil { // before the first one is closed
			c.file = os.NewFile(uintptr(own), c.file.Name())
			return nil
		}
		unix.Close(own)
	}
	if !errors.Is(err, unix.EINVAL) { // Linux 6.9 and later
		m.log("open the connection of volume %s for the pair: %v", c.Volume, err)
	}
	return err
}

// inCopy calls a function on a thread that is in a copy of the vault, which ends with the thread:
// what is cloned from there has its flags locked. Of a function that asks a program, asks is the
// program's directory: the thread may wait for ever, and keeps no other program's mounts.
func inCopy(vault int, asks string, f func() error) error {
	return mount.Inside(vault, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return os.NewSyscallError("copy the vault", err)
		}
		if asks != "" {
			if err := keepOnly(asks); err != nil {
				return fmt.Errorf("unmount others in a copy of the vault: %w", err)
			}
		}
		return f()
	})
}

// keepOnly gives a copy of the vault another root, which has the mounts of one program. In a copy,
// mounts can only be unmounted together.
func keepOnly(dir string) error {
	names := []string{dir, dir + readOnly}
	var trees []*mount.Tree
	for _, name := range names {
		tree, err := cloneBelow("/"+name, "", false)
		if err != nil {
			return err
		}
		defer tree.Close()
		trees = append(trees, tree)
	}
	if err := unix.Mount("vault", "/"+dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return err
	}
	if err := unix.Chdir("/" + dir); err != nil {
		return err
	}
	for i, name := range names {
		if err := os.Mkdir(name, 0o700); err != nil {
			return err
		}
		point, err := mount.Open(name)
		if err != nil {
			return err
		}
		err = trees[i].Attach(point)
		point.Close()
		if err != nil {
			return err
		}
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	return unix.Unmount(".", unix.MNT_DETACH)
}

// fileSystem is that of a program.
type fileSystem struct {
	Type    string  `json:"type"`
	Source  string  `json:"source"`
	Options string  `json:"options"`
	Flags   uintptr `json:"flags"`
}

// mount mounts a program's file system in the vault, unless it is mounted already, and returns its
// device. The requests have the host's PIDs, those of who mounts (fs/fuse/inode.c, fuse_conn_init).
// For those of the program's own PID namespace, a process of root's would have to be in there,
// which the pod could stop. No program is asked anything, so that it takes no child, which the
// program would wait for.
func (m *programs) mount(c *connection) (device uint64, err error) {
	vault, err := m.vault()
	if err != nil {
		return 0, err
	}
	defer vault.Close()
	file, err := m.device(c)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	pause("device")
	namespace, vaultErr := packet.Number(vault)
	number, err := packet.Number(file)
	if err = errors.Join(vaultErr, err); err != nil {
		return 0, err
	}
	fs := c.FileSystem
	err = mount.Inside(namespace, func() error {
		path := "/" + c.dir()
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		for try := 0; ; try++ {
			point, err := mount.Open(path)
			if err != nil {
				return err
			}
			mounted := point.Mounted()
			device = point.Device()
			point.Close()
			if mounted || try > 0 {
				return mountReadOnly(path, fs.Flags)
			}
			data := fmt.Sprintf("fd=%d,rootmode=40000,%s", number, fs.Options)
			if err := unix.Mount(fs.Source, path, fs.Type, fs.Flags, data); err != nil {
				return fmt.Errorf("mount a file system of type %s: %w", fs.Type, err)
			}
		}
	})
	return device, err
}

// readOnly is what the name of a directory ends with on which a program's file system is mounted
// read-only.
const readOnly = ".ro"

// mountReadOnly mounts what is on a directory once more, with the same flags and read-only: a flag
// that is set on a clone is not locked. No program is asked.
func mountReadOnly(path string, flags uintptr) error {
	again := path + readOnly
	if err := os.Mkdir(again, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	_ = unix.Unmount(again, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // of a mounter that was killed
	if err := unix.Mount(path, again, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount it a second time: %w", err)
	}
	if err := unix.Mount("", again, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("make the second mount of it read-only: %w", err)
	}
	return nil
}

var errNoVault = errors.New("there is no vault")

// openConnections opens fusectl, the kernel's file system of FUSE connections. It is mounted
// nowhere.
func openConnections() (*os.File, error) {
	context, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen fusectl", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, os.NewSyscallError("fsconfig fusectl", err)
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return nil, os.NewSyscallError("fsmount fusectl", err)
	}
	return os.NewFile(uintptr(fd), "fusectl"), nil
}

// waiting is how many requests of a connection have no answer (fs/fuse/control.c,
// fuse_conn_waiting_read).
func (m *base) waiting(device uint64) (n int, err error) {
	connections := -1
	m.do(func() {
		if m.connections == nil {
			m.connections, err = openConnections()
		}
		if err == nil {
			connections, err = packet.Number(m.connections)
		}
	})
	if err != nil {
		return 0, err
	}
	path := fmt.Sprintf("%d/waiting", unix.Minor(device))
	fd, err := unix.Openat(connections, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	_, err = fmt.Fscan(file, &n)
	return n, err
}

// The errands. They run in a child.

// mountAgain makes another mount of a connection, in a namespace of its own. The connection may be
// mounted in containers only (fs/fuse/inode.c, fuse_get_tree; Linux 5.14).
func mountAgain(connection int) (fd int, err error) {
	context, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(context)
	for _, option := range [][2]string{{"fd", strconv.Itoa(connection)}, {"rootmode", "40000"}, {"user_id", "0"}, {"group_id", "0"}} {
		if err := unix.FsconfigSetString(context, option[0], option[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, err
	}
	return unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
}

// unmountInVault removes connections' mounts from the vault. With force, it aborts them first:
// readers that wait get ECONNABORTED, everywhere.
func unmountInVault(j job) (result, error) {
	return result{}, mount.Inside(vaultFD, func() (err error) {
		for _, dir := range j.Dirs {
			path := "/" + dir
			if j.Force {
				// It aborts before it finds that the mount is busy, or none.
				_ = unix.Unmount(path, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW)
			}
			for _, path := range []string{path + readOnly, path} {
				unmountErr := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
				if unmountErr == nil || errors.Is(unmountErr, unix.EINVAL) { // none
					unmountErr = os.Remove(path)
				}
				if !errors.Is(unmountErr, os.ErrNotExist) {
					err = errors.Join(err, unmountErr)
				}
			}
		}
		return err
	})
}

// attachStandIns puts a program's file system on top of stand-ins in a container, in the place of
// former programs'.
func attachStandIns(j job) (result, error) {
	trees := make([]*mount.Tree, len(j.StandIns))
	var err error
	for i := range j.StandIns {
		if s := &j.StandIns[i]; len(s.Below) > 0 {
			if trees[i], err = cloneWithBelow(j, s); err != nil {
				return result{}, err
			}
		}
	}
	asks := ""
	if slices.ContainsFunc(j.StandIns, func(s standIn) bool { return s.Sub != "" }) {
		asks = j.Dir
	}
	err = inCopy(vaultFD, asks, func() (err error) {
		for i, s := range j.StandIns {
			if trees[i] == nil && err == nil {
				trees[i], err = cloneBelow("/"+j.Dir, s.Sub, s.ReadOnly)
			}
		}
		return err
	})
	if err != nil {
		return result{}, err
	}
	// On another thread: to leave the copy of the vault takes longer than to enter the container.
	return result{}, inContainer(j.PID, func() error {
		for i, s := range j.StandIns {
			if err := putOn(trees[i], s); err != nil {
				return again(err)
			}
		}
		return nil
	})
}

// cloneWithBelow copies a program's mount for a stand-in that the container has other volumes
// below, and copies these onto it: all of it appears at once. The originals stay on the stand-in,
// which has to be uncovered: nobody asks a dead program for the way to them.
func cloneWithBelow(j job, s *standIn) (tree *mount.Tree, err error) {
	var below []*mount.Tree
	err = inContainer(j.PID, func() error {
		if s.Above > 0 {
			if err := mount.Detach(s.Path, s.Above, s.Top); err != nil {
				return again(err)
			}
			s.Above, s.Top = 0, s.Device
		}
		for _, path := range s.Below {
			point, err := openInContainer(s.Path + "/" + path)
			if err != nil {
				return again(err)
			}
			copied, err := point.CloneAll()
			point.Close()
			if err != nil {
				return err
			}
			below = append(below, copied)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = inCopy(vaultFD, j.Dir, func() error {
		base := "/" + j.Dir
		for i, path := range s.Below {
			point, err := openMade(base, filepath.Join(s.Sub, path), s.ReadOnly)
			if err != nil {
				return err
			}
			err = below[i].Attach(point)
			point.Close()
			if err != nil {
				return err
			}
		}
		point, err := openMade(base, s.Sub, s.ReadOnly)
		if err != nil {
			return err
		}
		defer point.Close()
		tree, err = point.CloneAll()
		return err
	})
	return tree, err
}

// again marks an error that says that the container's mounts have changed.
func again(err error) error {
	if errors.Is(err, mount.ErrGone) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

func putOn(tree *mount.Tree, s standIn) error {
	if s.Above > 0 {
		return tree.Replace(s.Path, s.Above, s.Top)
	}
	point, err := openInContainer(s.Path)
	if err != nil {
		return err
	}
	defer point.Close()
	if point.Device() != s.Top {
		return mount.ErrGone
	}
	return tree.Attach(point)
}

// cloneBelow copies a mount from a directory in it.
func cloneBelow(base, sub string, isReadOnly bool) (*mount.Tree, error) {
	point, err := openMade(base, sub, isReadOnly)
	if err != nil {
		return nil, err
	}
	defer point.Close()
	return point.Clone()
}

// openMade opens a directory in a mount, or in the same one that is read-only. It makes the
// directory if there is none: the kubelet found it on the stand-in, which has every name.
func openMade(base, sub string, isReadOnly bool) (*mount.Point, error) {
	if sub != "" {
		if err := makeDirs(base, sub); err != nil {
			return nil, err
		}
	}
	if isReadOnly {
		base += readOnly
	}
	if sub == "" {
		return mount.Open(base)
	}
	return mount.OpenBelow(base, sub)
}

// makeDirs makes the directories on a path below another, with the mode of that one, as the
// kubelet does (kubernetes v1.34, pkg/volume/util/subpath, SafeMakeDir). It follows no link.
func makeDirs(base, sub string) error {
	at, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: base, Err: err}
	}
	defer func() { unix.Close(at) }()
	var stat unix.Stat_t
	if err := unix.Fstat(at, &stat); err != nil {
		return &os.PathError{Op: "stat", Path: base, Err: err}
	}
	for name := range strings.SplitSeq(sub, "/") {
		const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		next, err := unix.Openat(at, name, flags, 0)
		if errors.Is(err, unix.ENOENT) {
			if err = unix.Mkdirat(at, name, stat.Mode&0o777); err == nil || errors.Is(err, unix.EEXIST) {
				next, err = unix.Openat(at, name, flags, 0)
			}
		}
		if err != nil {
			return fmt.Errorf("make the directory of a subPath, or of a volume below, in what the program serves: %w", &os.PathError{Op: "open", Path: filepath.Join("/", sub), Err: err})
		}
		unix.Close(at)
		at = next
	}
	return nil
}

// attachOwn attaches a program's file system where the program wants to see it itself, if its
// user could mount something there with fusermount(1): on a directory that he may write to, and
// that is not another's with the sticky bit, in a file system that is made for files.
func attachOwn(j job) (done result, err error) {
	var tree *mount.Tree
	if err := inCopy(vaultFD, "", func() (err error) { tree, err = cloneBelow("/"+j.Dir, "", false); return err }); err != nil {
		return done, err
	}
	defer tree.Close()
	return done, inContainer(j.PID, func() error {
		point, err := openInContainer(j.Path)
		if err != nil {
			return err
		}
		defer point.Close()
		if point.Device() == j.Device {
			return nil // it is there already
		}
		fd := point.Descriptor()
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil {
			return &os.PathError{Op: "stat", Path: j.Path, Err: err}
		}
		var system unix.Statfs_t
		if err := unix.Fstatfs(fd, &system); err != nil {
			return &os.PathError{Op: "statfs", Path: j.Path, Err: err}
		}
		if point.Device() == j.Server { // read-only for all pods, and the mount is this container's
			system.Flags &^= unix.ST_RDONLY
		}
		if err := cmp.Or(mayMountIn(&system), mayMount(&stat, j.UID, j.GIDs)); err != nil {
			return fmt.Errorf("mount on %s: %w", j.Path, err)
		}
		err = unix.MoveMount(int(tree.File().Fd()), "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		if err != nil {
			return &os.PathError{Op: "mount on", Path: j.Path, Err: err}
		}
		return nil
	})
}

// mountable are the file systems that fusermount mounts in (libfuse 3.17, util/fusermount.c). None
// of them is one of the kernel's own, which root trusts, as runc does /proc in the container that
// it executes something in.
var mountable = []int64{
	unix.AFS_SUPER_MAGIC, unix.AUTOFS_SUPER_MAGIC, unix.BCACHEFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC,
	unix.CIFS_SUPER_MAGIC, unix.ECRYPTFS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, unix.EXT4_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.FUSE_SUPER_MAGIC, unix.JFFS2_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.NCP_SUPER_MAGIC, unix.NFS_SUPER_MAGIC,
	unix.NILFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.RAMFS_MAGIC, unix.REISERFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC,
	unix.SQUASHFS_MAGIC, unix.TMPFS_MAGIC, unix.XFS_SUPER_MAGIC,
	0x61756673,         // aufs
	0x01161970,         // gfs2
	0x47504653,         // gpfs
	0x482b,             // hfsplus
	0x3153464a,         // jfs
	0x0bd00bd0,         // lustre
	0x5346544e,         // ntfs
	0x7366746e,         // ntfs3
	0xaad7aaea,         // panfs
	0x24051905,         // ubifs
	0x736675005346544e, // ufsd
	0x18031977,         // wekafs
	0x2fc12fc1,         // zfs
}

// mayMountIn refuses the file system of a directory in which fusermount would mount nothing. It is
// asked of root, too: he is a container's.
func mayMountIn(system *unix.Statfs_t) error {
	switch {
	case !slices.Contains(mountable, system.Type):
		return fmt.Errorf("file systems of type %#x, such as proc, have no mount points; take the directory %s of the server volume", system.Type, wire.Mount)
	case system.Flags&unix.ST_RDONLY != 0: // of the mount, or of all of it
		return fmt.Errorf("%w; take the directory %s of the server volume", unix.EROFS, wire.Mount)
	}
	return nil
}

// mayMount is the rule of fusermount (libfuse 3.16, util/fusermount.c, check_perm).
func mayMount(stat *unix.Stat_t, uid uint32, gids []uint32) error {
	if uid == 0 {
		return nil
	}
	if stat.Mode&unix.S_ISVTX != 0 && stat.Uid != uid {
		return fmt.Errorf("the directory belongs to user %d and is sticky; take the directory %s of the server volume, or one of user %d's own", stat.Uid, wire.Mount, uid)
	}
	write := uint32(unix.S_IWOTH)
	if stat.Uid == uid {
		write = unix.S_IWUSR
	} else {
		for _, gid := range gids {
			if stat.Gid == gid {
				write = unix.S_IWGRP
			}
		}
	}
	if stat.Mode&write == 0 {
		return fmt.Errorf("user %d may not write to the directory; take the directory %s of the server volume", uid, wire.Mount)
	}
	return nil
}

// deviceAt is the device of what is open. No server is asked.
func deviceAt(fd int) (uint64, error) {
	var stat unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &stat); err != nil {
		return 0, os.NewSyscallError("statx", err)
	}
	return unix.Mkdev(stat.Dev_major, stat.Dev_minor), nil
}

// openInContainer opens a directory by a path without links. Those of a container could lead
// anywhere in it, at any moment.
func openInContainer(path string) (*mount.Point, error) {
	return mount.OpenBelow("/", strings.TrimPrefix(path, "/"))
}
