package podfuse

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// Servers are the server volumes: directories of a tmpfs that the mounter makes. Nothing serves
// them, so that the launcher and the socket are there whatever has died, and a program that
// is started is not asked for by what it is to serve.
type Servers struct {
	Layout
	Node survive.Node // that they are on
	// Owner of the copy of this binary, which all pods have in common: a user that nobody is. An
	// owner can take a lease, for which others' opens wait (man 2 F_SETLEASE).
	Owner uint32
}

var _ survive.Others = Servers{}

// owner is the user that owns the binary: not one of those that daemons have, which no pod shall
// know.
const owner = 4_200_000_000

// ServersOn are those of a node.
func ServersOn(n survive.Node) Servers { return Servers{Layout{n.RunDir}, n, owner} }

// Volumes lists those that are recorded, with their states, and those that are mounted only.
func (s Servers) Volumes() ([]survive.Volume, error) {
	ids, err := s.ServerVolumes().IDs()
	if err != nil {
		return nil, err
	}
	table := new(mount.Table) // once, for all volumes
	var all []survive.Volume
	for _, id := range ids {
		v := survive.Volume{ID: id, State: survive.VolumeUnknown}
		v.Record, v.Problem = s.ServerVolumes().Get(id)
		if errors.Is(v.Problem, fs.ErrNotExist) {
			continue // unmounted just now
		}
		if v.Problem == nil {
			v.State, _ = s.state(v.Dir, table)
		}
		all = append(all, v)
	}
	// As they are now: what is mounted in an older table may have been unmounted since.
	mounts, err := s.mounts(new(mount.Table))
	return append(all, s.Node.WithoutRecord(mounts, s.ServerVolumes())...), err
}

// mounts are those of this installation's server volumes in our own mount namespace, where only root
// makes a tmpfs of our source. Other installations have one of the same source.
func (s Servers) mounts(table *mount.Table) ([]*mountinfo.Info, error) {
	type device struct{ major, minor int }
	deviceOf := func(info *mountinfo.Info) device { return device{info.Major, info.Minor} }
	all, err := table.All("tmpfs", wire.Source)
	own, elsewhere := map[device]bool{}, map[device]bool{} // whole
	for _, info := range all {
		switch {
		case info.Mountpoint == s.Servers():
			own[deviceOf(info)] = true
		case info.Root == "/":
			elsewhere[deviceOf(info)] = true
		}
	}
	isOthers := func(info *mountinfo.Info) bool {
		if own[deviceOf(info)] {
			return false
		}
		// Its tmpfs was unmounted, or is another's. All drivers' volumes have the same plugin by CSI.
		if _, rest, ok := volume.SplitDir(info.Mountpoint); ok {
			if plugin := strings.Split(rest, "/")[2]; plugin != volume.CSIPlugin {
				return plugin != s.Node.Name.Dir()
			}
		}
		return elsewhere[deviceOf(info)]
	}
	return slices.DeleteFunc(all, isOthers), err
}

// state is what is mounted on the directory of a server volume.
func (s Servers) state(dir string, table *mount.Table) (survive.VolumeState, error) {
	on, err := volume.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, mount.ErrLink) {
		return survive.VolumeNotMounted, nil
	} else if err != nil {
		return survive.VolumeUnknown, err
	}
	defer on.Close()
	return s.stateOf(on, table)
}

// stateOf is what is mounted on a directory. Only root mounts there: a tmpfs of our source is
// ours, also one that another has replaced since.
func (s Servers) stateOf(on *mount.Point, table *mount.Table) (survive.VolumeState, error) {
	if something, err := on.Mounted(); err != nil {
		return survive.VolumeUnknown, err
	} else if !something {
		return survive.VolumeNotMounted, nil
	}
	info, err := table.Info(on)
	switch {
	case err != nil:
		return survive.VolumeUnknown, err
	case info == nil: // unmounted just now
		return survive.VolumeNotMounted, nil
	case info.FSType != "tmpfs" || info.Source != wire.Source:
		return survive.VolumeForeign, nil
	case info.Root != "/"+volume.NewID(on.Path).String() || !slices.Contains(strings.Split(info.Options, ","), "ro"):
		return survive.VolumeDead, nil // its directory was removed, or a call-out was killed before it was read-only
	}
	tmpfs, err := mount.Open(s.Servers())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return survive.VolumeUnknown, err
	} else if err == nil {
		defer tmpfs.Close()
	}
	if err != nil || tmpfs.Device() != on.Device() {
		return survive.VolumeDead, nil
	}
	return survive.VolumeOK, nil
}

// check returns what is mounted on a directory, and refuses one on which no server volume can be.
func (s Servers) check(dir string) (survive.VolumeState, error) {
	on, err := volume.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("directory %q does not exist; the kubelet makes it before it calls mount", dir)
	}
	if err != nil {
		return survive.VolumeUnknown, err
	}
	defer on.Close()
	state, err := s.stateOf(on, new(mount.Table))
	if err == nil && state == survive.VolumeForeign {
		err = fmt.Errorf("directory %q is a mount point of something else; unmount that first", dir)
	}
	return state, err
}

// mount binds a server volume, read-only, to the kubelet's directory, and reports whether it is a
// new mount. The caller has locked it.
func (s Servers) mount(record volume.Record) (mounted bool, err error) {
	state, err := s.check(record.Dir)
	if err != nil {
		return false, err
	}
	id := record.ID()
	before, err := s.ServerVolumes().Get(id)
	switch there := state == survive.VolumeOK; {
	case there && err == nil && before.PodUID != record.PodUID:
		return false, fmt.Errorf("directory %q is mounted for another pod, %s; unmount it first", record.Dir, before.PodUID)
	case err == nil && before.Dir != record.Dir:
		return false, fmt.Errorf("directories %q and %q have the same id; rename the volume", record.Dir, before.Dir)
	case there && err == nil && isSame(before, record):
		return false, nil // nothing is written: the disk may be full
	case there:
		return false, s.ServerVolumes().Put(record)
	}
	known := err == nil
	if !known && state == survive.VolumeNotMounted {
		if err := s.Node.CheckNew(); err != nil {
			return false, err
		}
	}
	if err := s.Node.MakeReadable(s.ServerVolumes().Dir); err != nil {
		return false, fmt.Errorf("make the directory of the server volumes' records: %w", err)
	}
	if err := s.ServerVolumes().Put(record); err != nil {
		return false, fmt.Errorf("record the volume: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		// Who stops the driver knows what is mounted by its record: where it may be, a record stays.
		switch state, _ := s.state(record.Dir, new(mount.Table)); {
		case state == survive.VolumeNotMounted:
			err = errors.Join(err, s.forget(id))
		case known:
			err = errors.Join(err, s.ServerVolumes().Put(before))
		}
	}()
	if err := s.makeDir(id); err != nil {
		return false, fmt.Errorf("make a directory for the pod's program: %w", err)
	}
	return true, s.bind(id, record.Dir)
}

// isSame tells whether a record that is stored says what another one does, but when it was made.
func isSame(stored, other volume.Record) bool {
	stored.Mounted, stored.Format = other.Mounted, other.Format
	return reflect.DeepEqual(stored, other)
}

// makeDir makes what the pod finds in the volume.
func (s Servers) makeDir(id volume.ID) error {
	if err := s.refreshBinary(); err != nil {
		return fmt.Errorf("copy this program to %s: %w", s.Servers(), err)
	}
	dir := s.ServerDir(id)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	device := filepath.Join(dir, wire.Device)
	if err := unix.Mkfifo(device, 0); err != nil && err != unix.EEXIST {
		return &fs.PathError{Op: "mkfifo", Path: device, Err: err}
	}
	// The umask is the kubelet's. A socket's mode is the link's that it has.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(device, 0o666)); err != nil {
		return err
	}
	if err := link(s.Socket(), filepath.Join(dir, wire.Socket)); err != nil {
		return err
	}
	for _, name := range append([]string{wire.Binary}, wire.Proxies...) {
		if err := link(s.binary(), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
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

func (s Servers) binary() string { return filepath.Join(s.Servers(), "binary") }

// refreshBinary copies this program to the tmpfs, unless that of this version is there. A volume
// keeps the version that it was mounted with: its launcher goes on.
func (s Servers) refreshBinary() error {
	note := filepath.Join(s.Servers(), "binary-version")
	isThere := func() bool {
		version, err := os.ReadFile(note)
		return err == nil && string(version) == s.Node.Version
	}
	if isThere() {
		return nil
	}
	// Several call-outs may be at it, and together their copies may need more space than there is.
	dir, err := os.Open(s.Servers())
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := filelock.Within(time.Now().Add(copyTime), dir, filelock.Flock(unix.LOCK_EX)); err != nil {
		return err
	}
	if isThere() { // by now
		return nil
	}
	err = s.copyBinary()
	if err == nil {
		err = volume.WriteFile(note, []byte(s.Node.Version))
	}
	// Each version that a pod was mounted with takes up space until that pod has ended.
	if errors.Is(err, unix.ENOSPC) && unix.Access(s.binary(), unix.F_OK) == nil {
		s.Node.Log("copy this program to %s: %v; a volume gets the launcher that is there, of an older version, as long as pods that were mounted with others take up the space", s.Servers(), err)
		return nil
	}
	return err
}

// copyTime is how long a call-out waits for others that copy.
const copyTime = 10 * time.Second

// copyBinary copies this program to a file without a name, of which a call-out that is killed leaves nothing, and
// gives it its name.
func (s Servers) copyBinary() error {
	name := filepath.Join(s.Servers(), ".new-binary")
	left, _ := filepath.Glob(name + "*") // by a call-out that was killed; in 0.1.0, each left one of a name of its own
	for _, path := range left {
		_ = os.Remove(path)
	}
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(s.Servers(), unix.O_TMPFILE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer target.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	// Where there is too little space, it takes that for a moment only, and others that wait for the lock do not
	// wait long. Before Linux 6.9, every signal ends it (mm/shmem.c, shmem_fallocate), such as those of Go's runtime.
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Fallocate(int(target.Fd()), 0, 0, info.Size())
	}
	if err != nil {
		return &os.PathError{Op: "fallocate", Path: s.Servers(), Err: err}
	}
	if _, err := io.Copy(target, source); err != nil {
		return err
	}
	if err := errors.Join(target.Chmod(0o755), target.Chown(int(s.Owner), 0)); err != nil {
		return err
	}
	unnamed := fmt.Sprintf("/proc/self/fd/%d", target.Fd())
	if err := unix.Linkat(unix.AT_FDCWD, unnamed, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "link", Old: unnamed, New: name, Err: err}
	}
	// Nobody can execute what somebody has open to write (ETXTBSY).
	if err := target.Close(); err != nil {
		return err
	}
	return os.Rename(name, s.binary())
}

// bind binds a volume's directory to the kubelet's, in the place of one that is of no use any more.
func (s Servers) bind(id volume.ID, dir string) error {
	if err := s.detachAll(dir); err != nil {
		return err
	}
	on, err := volume.OpenDir(dir)
	if err != nil {
		return err
	}
	defer on.Close()
	source, err := mount.Open(s.ServerDir(id))
	if err != nil {
		return err
	}
	defer source.Close()
	if err := on.Bind(source); err != nil {
		return err
	}
	// A bind mount takes no flags of its own. Nobody but the kubelet sees it before.
	mounted, err := volume.OpenDir(dir)
	if err != nil {
		return err
	}
	defer mounted.Close()
	if err := mounted.MakeReadOnly(); err != nil {
		return errors.Join(err, mounted.Detach())
	}
	return nil
}

// Unmount removes a server volume from a directory, if there is one, with its record.
func (s Servers) Unmount(dir string) error {
	if err := s.detachAll(dir); err != nil {
		return err
	}
	if state, err := s.state(dir, new(mount.Table)); err != nil || state != survive.VolumeNotMounted {
		return err // what covers it is somebody else's
	}
	return s.forget(volume.NewID(dir))
}

// detachAll removes all mounts of server volumes from a directory.
func (s Servers) detachAll(dir string) error {
	const tries = 100 // more than are ever stacked
	for range tries {
		if more, err := s.detach(dir); err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("directory %q is still mounted after %d attempts to unmount it", dir, tries)
}

// detach removes the topmost mount from a directory, if it is of a server volume.
func (s Servers) detach(dir string) (more bool, err error) {
	on, err := volume.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, mount.ErrLink) {
		return false, nil // survive says what is wrong with it
	} else if err != nil {
		return false, err
	}
	defer on.Close()
	state, err := s.stateOf(on, new(mount.Table))
	if err != nil || state != survive.VolumeOK && state != survive.VolumeDead {
		return false, err
	}
	if err := on.Detach(); !errors.Is(err, unix.EINVAL) {
		return true, err
	}
	return true, nil // another process was faster; look again
}

// forget removes what there is of a volume, which is mounted nowhere in the kubelet's
// directories. A container that still has it keeps an empty directory.
func (s Servers) forget(id volume.ID) error {
	return errors.Join(os.RemoveAll(s.ServerDir(id)), s.ServerVolumes().Delete(id))
}
