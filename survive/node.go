package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// patience is how long a step that should take milliseconds may take before a call-out gives
// up. The kubelet itself waits for ever.
const patience = 10 * time.Second

// Node is one installation of a driver on this node.
type Node struct {
	Driver
	Settings
	Name   flex.Name // the kubelet's, for the installation
	RunDir string    // in memory: after a reboot there are no mounts, and no records of them
	log    calllog.Log

	deadline time.Time // of the call-out; see begin
}

// Log writes a line that concerns the node, and not a call-out.
func (n Node) Log(format string, args ...any) { n.log.Line("daemon: "+format, args...) }

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

// errNoFileSystem says that the driver could not make one.
var errNoFileSystem = errors.New("the driver has no file system: its field FileSystem is nil, or has returned nil")

// problem logs a problem that does not end the process.
func (n Node) problem(problem string) { n.Log("%s", problem) }

// serveArgs are the arguments of the command of a process that serves.
func (n Node) serveArgs() []string { return []string{"--driver", n.Name.String()} }

// firstArgs are those of one that root starts, which becomes the daemon's user.
func (n Node) firstArgs() []string {
	return append(n.serveArgs(), "--user", strconv.FormatUint(uint64(n.User().UID), 10))
}

// standbyArgs are those of one that a confined process starts.
func (n Node) standbyArgs() []string { return append(n.serveArgs(), "--confined") }

// Volumes are the records of the driver's volumes.
func (n Node) Volumes() volume.Store { return volume.Store{Dir: n.path("volumes")} }

// crashFile is where a process that serves says why it ends; see crash.go.
func (n Node) crashFile() string { return n.path("crash") }

func (n Node) fsPath() string { return n.path("fs") }

// pair says where to find the processes that serve.
func (n Node) pair() pair.Place {
	return pair.Place{Socket: n.socket(), Lock: n.path("daemon.lock"), User: confine.User(n.User())}
}

func (n Node) socket() string { return n.path("control") }

func (n Node) path(name string) string { return filepath.Join(n.RunDir, name) }

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
	if there.locks, err = n.daemon(); err != nil {
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

// Died tells whether the daemon is gone. A file system that is being mounted has no daemon
// yet; so it is an error if a call-out is starting one, or ending it.
func (n Node) Died() (bool, error) {
	unlock, err := n.lockFile(os.O_RDONLY, time.Time{}, filelock.Flock(shared))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // nor is there a mount
	} else if err != nil {
		return false, fmt.Errorf("tell whether a call-out starts or ends the daemon: %w", err)
	}
	defer unlock()
	state, err := n.MountState()
	return state == MountDead, err
}

// openMounted opens a directory that something is mounted on; nil: it is no such directory.
func openMounted(path string) (*mount.Point, error) {
	point, err := mount.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	mounted, err := point.Mounted()
	if err != nil || !mounted {
		point.Close()
		return nil, err
	}
	return point, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
