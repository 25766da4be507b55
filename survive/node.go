package survive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/inside"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// Node is one installation of a driver on this node, and what it has there: paths, locks, notes and
// records.
type Node struct {
	Driver
	Settings
	Name   flex.Name // the kubelet's, for the installation
	RunDir string    // in memory: after a reboot there are no mounts, and no records of them
	log    calllog.Log

	deadline time.Time // of the call-out that this is a part of; zero: see until
}

// What is done with a node has three floors. Each uses those below it.
type (
	// daemon is the pair of processes that serve, as root sees it from without: to find, to ask, to
	// give something, to end.
	daemon struct{ Node }
	// healing is what is done for mounts that are dead, or not where they should be.
	healing struct{ daemon }
	// callOut is a call-out at work, or a command. It implements [inside.Node], where comments on
	// its exported methods stand.
	callOut struct{ healing }
)

// begin begins a call-out: from now on its time runs.
func (n Node) begin() callOut {
	n.deadline = n.until()
	return callOut{healing{daemon{n}}}
}

// Inside is for other packages of this module. No driver needs it.
func (n Node) Inside() inside.Node { return n.begin() }

// NodeFor returns the presence on this node of the installation that has a name. It touches
// nothing.
func (d Driver) NodeFor(name flex.Name, settings Settings) Node {
	return Node{
		Driver: d, Name: name, Settings: settings,
		RunDir: filepath.Join("/run", d.Program, name.Dir()),
		log:    calllog.New(d.Program, settings.Log),
	}
}

// Log writes a line that concerns the node, and not a call-out.
func (n Node) Log(format string, args ...any) { n.log.Line("daemon: "+format, args...) }

// problem logs a problem that does not end the process.
func (n Node) problem(problem string) { n.Log("%s", problem) }

func (n Node) path(name string) string { return filepath.Join(n.RunDir, name) }

func (n Node) fsPath() string { return n.path("fs") }

// Files of the run directory that are named in more than one place.
const (
	noteOfUser      = "user"           // only root can read it
	noteOfRefusal   = "no-new-volumes" // it is there while the driver refuses them
	noteOfCompanion = "companion"      // of the daemon that was started, like the next two
	noteOfInput     = "input"
	noteOfVersion   = "version"
	stateFile       = "state" // see state.go
)

// unkept is the name of a note of a daemon that may not serve yet.
func unkept(note string) string { return ".new-" + note }

// note is the content of a file in the run directory; "" if there is none.
func (n Node) note(name string) string {
	text, _ := os.ReadFile(n.path(name))
	return string(text)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Volumes are the records of the driver's volumes.
func (n Node) Volumes() volume.Store { return volume.Store{Dir: n.path("volumes")} }

// User is the user and the group of the two processes that serve.
type User struct{ UID, GID uint32 }

// gid is the daemon's group.
func (n Node) gid() int { return int(confine.GroupOf(n.Program)) }

// User is the user of the daemon, as root has noted it when it started that. No process has the
// one that it is without a note. Only version 0.1.1 has noted its version, and no user: its user
// had the group's number, and stays that of the daemon that takes over.
func (n Node) User() User {
	note, err := os.ReadFile(n.path(noteOfUser))
	if errors.Is(err, fs.ErrNotExist) && exists(n.path(noteOfVersion)) {
		return User{UID: uint32(n.gid()), GID: uint32(n.gid())}
	}
	uid, err := strconv.ParseUint(string(note), 10, 32)
	if err != nil || uid == 0 {
		uid = confine.NoUser
	}
	return User{UID: uint32(uid), GID: uint32(n.gid())}
}

// pair says where to find the processes that serve.
func (n Node) pair() pair.Place {
	return pair.Place{Socket: n.path("control"), Lock: n.path("daemon.lock"), User: confine.User(n.User())}
}

// serveArgs are the arguments of the command of a process that serves.
func (n Node) serveArgs(more ...string) []string {
	return append([]string{"--driver", n.Name.String()}, more...)
}

// firstArgs are those of one that root starts, which becomes the daemon's user.
func (n Node) firstArgs() []string {
	return n.serveArgs("--user", strconv.FormatUint(uint64(n.User().UID), 10))
}

// fsType is the type that mountinfo shows for the driver's file systems.
func (d Driver) fsType() string { return "fuse." + d.Program }

// options are what holds for a connection that this version begins.
func (d Driver) options() connection.Options {
	return connection.Options{MaxRead: cmp.Or(d.MaxRead, connection.Default.MaxRead)}
}

// cgroupName begins the names of the cgroups of the node's driver.
func (n Node) cgroupName() string { return n.Program + "-" + n.Name.String() }

// fileSystem makes the file system of the node mount.
func (n Node) fileSystem(site Site) FileSystem {
	if n.FileSystem == nil {
		return nil
	}
	site.Volumes, site.Config, site.Report = n.Volumes(), n.Config, n.problem
	if site.CallOut {
		site.State = make([]byte, n.State)
	}
	return n.FileSystem(site)
}

// shownFileSystem is the one that only shows the call-out what it is.
func (n Node) shownFileSystem() FileSystem { return n.fileSystem(Site{CallOut: true}) }

// errNoFileSystem says that the driver could not make one.
var errNoFileSystem = errors.New("the driver has no file system: its field FileSystem is nil, or has returned nil")

// varying returns the numbers of the files that vary.
func (n Node) varying() []uint8 {
	if files, vary := n.shownFileSystem().(SizeVarier); vary {
		return files.VaryingSizes()
	}
	return nil
}

// How long call-outs wait, and for what. The kubelet itself waits for ever.
const (
	// callOutTimeout is for locks, the daemon and containers together. It is longer than it takes
	// to find that a daemon is silent, to end it, and to start another one.
	callOutTimeout = 25 * time.Second
	// stepTimeout is for a step that should take milliseconds.
	stepTimeout = 10 * time.Second
	// abortTimeout is the least time after which a daemon that does not answer loses its
	// connection: a standby needs six seconds to replace a process that hangs. Whoever has less
	// left asks, and gives up.
	abortTimeout = 7 * time.Second
	// deadTimeout is for an answer where no process seems to live that could give it: we may have
	// asked before a new one had its lock.
	deadTimeout = 2 * time.Second
	// reportTimeout is for a report that nothing depends on.
	reportTimeout = time.Second
	// endTimeout is for a daemon that was asked to end, until it is killed; and for one of unknown
	// PID, which cannot be killed.
	endTimeout = time.Second
	// killTimeout is for one that was killed.
	killTimeout = 5 * time.Second
)

var errNoTime = errors.New("no time is left for it")

// until is the deadline of the call-out; of what is no part of one, it begins now.
func (n Node) until() time.Time {
	if n.deadline.IsZero() {
		return time.Now().Add(callOutTimeout)
	}
	return n.deadline
}

// within is the limit of a wait, or what is left until the deadline.
func (n Node) within(limit time.Duration) time.Duration {
	return max(min(limit, time.Until(n.until())), 0)
}

// How call-outs lock the run directory. The exclusive lock is held while a daemon is started,
// replaced or ended, and not while one is asked that may not answer: other pods' mounts wait for
// it.
const (
	shared    = unix.LOCK_SH // uses the daemon
	exclusive = unix.LOCK_EX // starts or ends the daemon
)

// lock takes the run directory's lock, making the directory if need be. It waits for a
// call-out that starts a daemon, and for others that wait for it.
func (n Node) lock(how int) (unlock func(), err error) {
	for deadline := n.until(); ; {
		if err = os.MkdirAll(n.RunDir, 0o750); err != nil {
			err = fmt.Errorf("make the run directory: %w", err)
		} else {
			unlock, err = n.lockFile(os.O_RDWR|os.O_CREATE, deadline, filelock.Flock(how))
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			return unlock, err
		}
		// Between the two steps, Stop has removed the directory. Or another driver's Stop has
		// removed the directory above, which both have.
	}
}

// LockVolume is for mount and unmount, which look at the volume, and change it, in more than one
// step. The lock is that byte of the lock file which has the volume's id for its number, and
// belongs to the open file (fcntl(2), F_OFD_SETLK). So it needs no file of its own, and is
// independent of lock, for which an unmount must not wait.
func (n daemon) LockVolume(id volume.ID) (unlock func(), err error) {
	return n.lockVolumeUntil(id, n.until())
}

// lockVolumeUntil does the same. With the zero time, it does not wait.
func (n Node) lockVolumeUntil(id volume.ID, deadline time.Time) (unlock func(), err error) {
	return n.lockBytes(int64(id), 1, deadline)
}

// lockVolumes waits for all call-outs that have locked a volume, and keeps others off.
func (n Node) lockVolumes() (unlock func(), err error) {
	return n.lockBytes(1, 0, n.until())
}

// lockBytes locks length bytes of the lock file, or all from the first on.
func (n Node) lockBytes(first, length int64, deadline time.Time) (unlock func(), err error) {
	bytes := unix.Flock_t{Type: unix.F_WRLCK, Start: first, Len: length}
	return n.lockFile(os.O_RDWR, deadline, func(file *os.File) error {
		return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &bytes)
	})
}

// lockFile opens the lock file, and locks it or a part of it.
func (n Node) lockFile(flags int, deadline time.Time, try func(*os.File) error) (unlock func(), err error) {
	for {
		file, err := os.OpenFile(n.path("lock"), flags, 0o600)
		if err != nil {
			return nil, err
		}
		err = filelock.Within(deadline, file, try)
		if err == nil && isAt(file, n.path("lock")) {
			return func() { file.Close() }, nil
		}
		file.Close()
		if err != nil {
			return nil, err
		}
		// Stop removed the file while we waited: it locks nothing.
	}
}

// isAt tells whether a file is the one that has a path.
func isAt(file *os.File, path string) bool {
	held, heldErr := file.Stat()
	there, err := os.Stat(path)
	return err == nil && heldErr == nil && os.SameFile(held, there)
}

// MountState is the condition of the node mount.
type MountState string

const (
	MountOK     MountState = "ok"     // mounted and served
	MountDead   MountState = "dead"   // mounted, but the daemon is gone
	MountAbsent MountState = "absent" // not mounted
)

// look is the node mount, and who has the daemon's locks, at one moment. Nobody is asked for
// it but the kernel.
type look struct {
	device uint64 // of the node mount; 0: nothing is mounted there
	bad    bool   // its root is bad, see mount.Point
	locks  pair.Locks
}

func (n Node) look() (there look, err error) {
	if there.locks, err = n.locks(); err != nil {
		return there, err
	}
	point, err := openMounted(n.fsPath())
	if err != nil || point == nil {
		return there, err
	}
	defer point.Close()
	there.device, there.bad = point.Device(), point.Bad()
	return there, nil
}

// locks finds who has the locks of the daemon's pair.
func (n Node) locks() (pair.Locks, error) {
	locks, err := n.pair().Find()
	if err != nil {
		return pair.Locks{}, fmt.Errorf("find the daemon: %w", err)
	}
	return locks, nil
}

func (l look) state() MountState {
	switch {
	case l.device == 0:
		return MountAbsent
	case l.bad, l.locks.State() <= pair.Dead:
		return MountDead
	}
	return MountOK
}

// living is the device number of the file system that is served; 0: none is.
func (l look) living() uint64 {
	if l.state() != MountOK {
		return 0
	}
	return l.device
}

// seemsServed is enough for a mount call-out. Without a standby, the active process may have
// been killed and unable to end, so its state counts, too.
func (l look) seemsServed() bool {
	return l.device != 0 && !l.bad && l.locks.Active.Held && (l.locks.Standby.Held || l.locks.Active.State() == pair.Alive)
}

// MountState returns the condition of the node mount.
func (n Node) MountState() (MountState, error) {
	there, err := n.look()
	return there.state(), err
}

func (n Node) volumeState(dir string, living uint64, table *mount.Table) (VolumeState, error) {
	point, err := openDir(dir)
	if err != nil {
		return VolumeUnknown, err
	} else if point == nil {
		return VolumeNotMounted, nil
	}
	defer point.Close()
	return n.mountedOn(point, living, table)
}

// openDir opens the directory of a volume; nil: no volume of ours can be there.
func openDir(dir string) (*mount.Point, error) {
	point, err := volume.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, mount.ErrLink) {
		return nil, nil
	}
	return point, err
}

// openMounted opens a directory that something is mounted on; nil: it is no such directory.
func openMounted(path string) (*mount.Point, error) {
	point, err := mount.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if !point.Mounted() {
		point.Close()
		return nil, nil
	}
	return point, nil
}

// mountedOn tells what is mounted on a directory. The file system with the number living is
// served.
func (n Node) mountedOn(point *mount.Point, living uint64, table *mount.Table) (VolumeState, error) {
	switch {
	case !point.Mounted():
		return VolumeNotMounted, nil
	case point.Device() == living && !point.Bad():
		return VolumeOK, nil
	}
	// Of no use. mountinfo tells whether it is ours.
	info, err := table.Info(point)
	switch {
	case err != nil:
		return VolumeUnknown, err
	case info == nil: // unmounted just now
		return VolumeNotMounted, nil
	case info.FSType == n.fsType() && info.Source == n.Name.String():
		return VolumeDead, nil
	}
	return VolumeForeign, nil
}

// lookOn tells the same, with the node mount as it is now. It looks at that only if something
// is mounted, which is rare for a volume that is to be mounted.
func (n Node) lookOn(point *mount.Point) (VolumeState, error) {
	if !point.Mounted() {
		return VolumeNotMounted, nil
	}
	there, err := n.look()
	if err != nil {
		return VolumeUnknown, err
	}
	return n.mountedOn(point, there.living(), new(mount.Table))
}

func deviceOf(info *mountinfo.Info) uint64 { return unix.Mkdev(uint32(info.Major), uint32(info.Minor)) }

// others lists the driver's other volumes.
func (n Node) others() ([]Volume, error) {
	if n.OtherVolumes == nil {
		return nil, nil
	}
	return n.OtherVolumes(n).Volumes()
}
