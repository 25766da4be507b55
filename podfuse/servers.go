package podfuse

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// Servers are the server volumes. They are no FUSE file systems, so the launcher and the socket are
// there whatever has died.
//
// A pod's root may write to everything that its runtime mounts rw, whatever the flags of the
// driver's mount. So what several pods see is on file systems that are read-only themselves, which
// the mounter makes. Of the one that is not read-only, a pod sees its own FIFO, and no directory.
// Package wire says where each is mounted.
type Servers struct {
	Layout
	Node survive.Node // that they are on
}

var _ survive.OtherVolumes = Servers{}

// ServersOn are those of a node.
func ServersOn(n survive.Node) Servers { return Servers{Layout{n.RunDir}, n} }

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
	// Read the table again: what an older table shows may have been unmounted since.
	mounts, err := s.mounts(new(mount.Table))
	lost := s.Node.Inside().WithoutRecord(mounts, s.ServerVolumes())
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		all = append(all, survive.Volume{ID: id, Record: lost[id], State: survive.VolumeUnrecorded})
	}
	return all, err
}

// mounts lists the FIFO mounts of this installation's server volumes in our own mount namespace.
// The path of each is that of its volume's directory. Only root makes a tmpfs of our source there.
// Other installations have one of the same source.
func (s Servers) mounts(table *mount.Table) (found []*mountinfo.Info, err error) {
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
	isOurs := func(info *mountinfo.Info) bool {
		if own[deviceOf(info)] {
			return true
		}
		// Its tmpfs was unmounted, or is another's. All drivers' volumes have the same plugin by
		// CSI.
		if _, rest, ok := volume.SplitDir(info.Mountpoint); ok {
			if plugin := strings.Split(rest, "/")[2]; plugin != volume.CSIPlugin {
				return plugin == s.Node.Name.Dir()
			}
		}
		return !elsewhere[deviceOf(info)]
	}
	for _, info := range all {
		dir, name := filepath.Split(info.Mountpoint)
		if name != wire.Device {
			continue
		}
		of := *info
		if of.Mountpoint = filepath.Clean(dir); isOurs(&of) {
			found = append(found, &of)
		}
	}
	return found, err
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
	if !on.Mounted() {
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
	}
	has, err := s.has(info, volume.NewID(on.Path), table)
	if err != nil {
		return survive.VolumeUnknown, err
	} else if !has {
		return survive.VolumeDead, nil
	}
	return survive.VolumeOK, nil
}

// has tells whether a server volume has its FIFO and the socket on which somebody listens. Neither
// is a matter of flags, which differ by mount namespace.
func (s Servers) has(on *mountinfo.Info, id volume.ID, table *mount.Table) (bool, error) {
	all, err := table.All("tmpfs", wire.Source)
	if err != nil {
		return false, err
	}
	for name, part := range map[string]struct{ from, root string }{
		wire.Device: {s.Servers(), "/" + id.String()},
		wire.Socket: {s.SocketDir(), "/" + wire.Socket},
	} {
		from, err := mount.Open(part.from)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		device := from.Device()
		from.Close()
		if !slices.ContainsFunc(all, func(info *mountinfo.Info) bool {
			return info.Parent == on.ID && filepath.Base(info.Mountpoint) == name && info.Root == part.root &&
				unix.Mkdev(uint32(info.Major), uint32(info.Minor)) == device
		}) {
			return false, nil
		}
	}
	return true, nil
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

// mount mounts a server volume on the kubelet's directory, and reports whether it is a
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
		return false, nil // without a write, because the disk may be full
	case there:
		return false, s.ServerVolumes().Put(record)
	}
	known := err == nil
	if !known && state == survive.VolumeNotMounted {
		if err := s.Node.Inside().CheckNew(); err != nil {
			return false, err
		}
	}
	if err := s.Node.Inside().MakeReadable(s.ServerVolumes().Dir); err != nil {
		return false, fmt.Errorf("make the directory of the server volumes' records: %w", err)
	}
	if err := s.ServerVolumes().Put(record); err != nil {
		return false, fmt.Errorf("record the volume: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		// stop knows what is mounted by its record. So the record stays where something may be
		// mounted.
		switch state, _ := s.state(record.Dir, new(mount.Table)); {
		case state == survive.VolumeNotMounted:
			err = errors.Join(err, s.forget(id))
		case known:
			err = errors.Join(err, s.ServerVolumes().Put(before))
		}
	}()
	if err := s.makeFIFO(id); err != nil {
		return false, fmt.Errorf("make what the pod's program has for /dev/fuse: %w", err)
	}
	return true, s.put(id, record.Dir)
}

// isSame tells whether a record that is stored says what another one does, but when it was made.
func isSame(stored, other volume.Record) bool {
	stored.Mounted, stored.Format = other.Mounted, other.Format
	return reflect.DeepEqual(stored, other)
}

// makeFIFO makes what only this volume has. Nobody else can write to the directory: no pod sees it.
func (s Servers) makeFIFO(id volume.ID) error {
	if err := mustBeMounted(s.Servers()); err != nil {
		return err
	}
	path := s.FIFO(id)
	if err := unix.Mkfifo(path, 0); err != nil && err != unix.EEXIST {
		return &fs.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	if info, err := os.Lstat(path); err != nil {
		return err
	} else if info.Mode().Type() != fs.ModeNamedPipe {
		return fmt.Errorf("%s is no FIFO; unmount the volume first", path)
	}
	return os.Chmod(path, 0o666) // the umask is the kubelet's
}

// mustBeMounted says what is wrong where one of the mounter's file systems is not there.
func mustBeMounted(path string) error {
	point, err := mount.Open(path)
	if err != nil {
		return err
	}
	defer point.Close()
	if point.Mounted() {
		return nil
	}
	return fmt.Errorf("nothing is mounted on %s, where the mounter has a tmpfs: its log tells why", path)
}

// put mounts a volume on the kubelet's directory, in the place of one that is of no use any more.
// It appears there with all that belongs to it, also where the directory's mounts propagate to.
func (s Servers) put(id volume.ID, dir string) error {
	tree, err := s.assemble(id)
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := s.detachAll(dir); err != nil {
		return err
	}
	on, err := volume.OpenDir(dir)
	if err != nil {
		return err
	}
	defer on.Close()
	return tree.Attach(on)
}

// assembly is where a volume is put together: on a directory beside its FIFO.
func (s Servers) assembly(id volume.ID) string { return s.FIFO(id) + ".new" }

// assemble puts a volume together. The caller has locked it.
func (s Servers) assemble(id volume.ID) (tree *mount.Tree, err error) {
	for _, path := range []string{s.Launcher(), s.SocketDir()} {
		if err := mustBeMounted(path); err != nil {
			return nil, err
		}
	}
	at := s.assembly(id)
	if err := mount.Remove(at); err != nil { // of a call-out that was killed
		return nil, err
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, mount.Remove(at)); err != nil && tree != nil {
			tree.Close()
		}
	}()
	if err := attach(s.Shared(), at); err != nil {
		return nil, err
	}
	whole, err := mount.Open(at)
	if err != nil {
		return nil, err
	}
	defer whole.Close()
	if err := whole.Private(); err != nil { // or what is mounted in it would be in all other volumes
		return nil, err
	}
	err = errors.Join(attach(s.FIFO(id), filepath.Join(at, wire.Device)), attach(s.Socket(), filepath.Join(at, wire.Socket)))
	if err != nil {
		return nil, err
	}
	return whole.CloneAll()
}

// attach mounts a file or directory of ours on another one.
func attach(from, on string) error {
	source, err := mount.OpenFile(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := mount.OpenFile(on)
	if err != nil {
		return err
	}
	defer target.Close()
	tree, err := source.Clone()
	if err != nil {
		return err
	}
	defer tree.Close()
	return tree.Attach(target)
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
// directories. A container that still has it keeps it, and may serve nothing by it.
func (s Servers) forget(id volume.ID) error {
	return errors.Join(mount.Remove(s.FIFO(id)), mount.Remove(s.assembly(id)), s.ServerVolumes().Delete(id))
}
