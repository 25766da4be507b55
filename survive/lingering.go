package survive

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/volume"
)

// A kubelet unmounts a volume when the containers that use it have ended. But one that has just
// started may do so while they run, and mount it anew (kubernetes v1.31,
// pkg/volume/flexvolume/probe.go, Probe: as long as it calls init, others find no such driver).
// What a container has of the volume is a mount in its own namespace, which stays; the daemon serves
// it by its record. So an unmounted volume that another namespace still shows lingers: it keeps its
// record, and RUN/lingering has an empty file with its id, until it is mounted again, or a later
// call-out finds that nobody shows it any more.
//
// Any mount of our type and source counts. Whoever forges one in a user namespace keeps a record, of
// a directory whose name he knows, and nothing else.

const (
	// lingeringTime is how long a call-out reads the mounts of others. For a hundred containers it
	// takes some tens of milliseconds at most.
	lingeringTime = time.Second
	// lingeringHang is how many processes may not answer before the rest is not asked; see mount.OthersOf.
	lingeringHang = 16
)

func (n Node) lingeringPath(id volume.ID) string { return n.path("lingering/" + id.String()) }

// lingering lists the volumes that linger, with the files that say so.
func (n Node) lingering() (map[volume.ID]fs.FileInfo, error) {
	entries, err := os.ReadDir(n.path("lingering"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // as nearly always
	}
	all := map[volume.ID]fs.FileInfo{}
	for _, entry := range entries {
		id, idErr := volume.ParseID(entry.Name())
		info, infoErr := entry.Info()
		if idErr == nil && infoErr == nil { // or it was mounted again just now
			all[id] = info
		}
	}
	return all, err
}

// removeUnlessShown removes the record of a volume that was unmounted, unless another mount namespace
// shows it, and those of volumes that lingered until now. The caller has locked the volume.
func (n Node) removeUnlessShown(id volume.ID) error {
	record, err := n.Volumes().Get(id)
	if errors.Is(err, fs.ErrNotExist) {
		return n.removeRecord(id)
	}
	before, err := n.lingering()
	if err != nil {
		n.Log("list the volumes that linger: %v", err) // it is for another call-out to remove them
	}
	shown, unknown := n.shownByOthers()
	lingers := true
	switch who, is := shown[id]; {
	case is:
		n.Log("%s is unmounted, and stays readable where it is still mounted, as in the container of process %d (%s)", record.Dir, who.PID, command(who.PID))
	case unknown != nil:
		n.Log("%s is unmounted, and stays readable: not all containers could be looked at: %v", record.Dir, unknown)
	default:
		lingers = false
	}
	if unknown == nil {
		n.removeLingering(before, shown)
	}
	if lingers {
		if err = n.linger(id); err == nil {
			return nil
		}
		n.Log("%s cannot stay readable: %v", record.Dir, err)
	}
	return n.removeRecord(id)
}

// tidyLingering removes the records of volumes that lingered until now.
func (n Node) tidyLingering() {
	before, err := n.lingering()
	if err != nil {
		n.Log("list the volumes that linger: %v", err)
	}
	if len(before) == 0 {
		return
	}
	shown, err := n.shownByOthers()
	if err != nil {
		n.Log("look for containers that still show volumes that were unmounted: %v", err)
		return
	}
	n.removeLingering(before, shown)
}

// removeLingering removes the records of those that lingered before the others were looked at, and that
// none of these shows. One that was mounted since, also if it lingers again, or that a call-out has
// locked, is for a later call-out.
func (n Node) removeLingering(before map[volume.ID]fs.FileInfo, shown map[volume.ID]mount.Namespace) {
	for id, mark := range before {
		if _, is := shown[id]; is {
			continue
		}
		err := n.removeIfLingering(id, mark)
		if err != nil && !errors.Is(err, filelock.ErrLocked) && !errors.Is(err, fs.ErrNotExist) { // it was stopped
			n.Log("remove the record of volume %s, which was unmounted: %v", id, err)
		}
	}
}

func (n Node) removeIfLingering(id volume.ID, mark fs.FileInfo) error {
	unlock, err := n.lockVolumeUntil(id, time.Time{})
	if err != nil {
		return err
	}
	defer unlock()
	now, err := os.Lstat(n.lingeringPath(id))
	if err != nil || !os.SameFile(now, mark) || !now.ModTime().Equal(mark.ModTime()) {
		return err
	}
	record, err := n.Volumes().Get(id)
	if errors.Is(err, fs.ErrNotExist) {
		return n.removeRecord(id)
	} else if err != nil {
		return err
	}
	// A mount that was killed, or an older version, which knows no marks, may have mounted it since.
	switch state, err := n.volumeState(record.Dir, 0, new(mount.Table)); {
	case err != nil:
		return err
	case state == VolumeNotMounted:
		return n.removeRecord(id)
	case state != VolumeForeign:
		return n.lingerNoMore(id)
	}
	return nil
}

// removeRecord removes a volume's record, and the mark that it lingers.
func (n Node) removeRecord(id volume.ID) error {
	if err := n.Volumes().Delete(id); err != nil {
		return err
	}
	return n.lingerNoMore(id)
}

// linger marks a volume. Its mark is another file after each mount.
func (n Node) linger(id volume.ID) error {
	if err := os.Mkdir(n.path("lingering"), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(n.lingeringPath(id), nil, 0o600)
}

func (n Node) lingerNoMore(id volume.ID) error {
	if err := os.Remove(n.lingeringPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// shownByOthers lists the volumes that other mount namespaces show, each with one of these. An error
// says that it does not know all.
func (n Node) shownByOthers() (shown map[volume.ID]mount.Namespace, err error) {
	for range 3 { // a process may end meanwhile, and others be in its namespace
		shown, err = n.shownNow()
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	return shown, err
}

func (n Node) shownNow() (map[volume.ID]mount.Namespace, error) {
	pids, err := proc.PIDs()
	if err != nil {
		return nil, err
	}
	namespaces, untold, err := mount.OthersOf(pids, lingeringHang)
	if err != nil {
		return nil, err
	}
	shown := map[volume.ID]mount.Namespace{}
	until := time.Now().Add(lingeringTime)
	for _, namespace := range append(namespaces, untold...) {
		err := namespace.Each(n.fsType(), n.Name.String(), until, func(info *mountinfo.Info) {
			if id, ofVolume := volumeOf(info); ofVolume {
				shown[id] = namespace
			}
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return shown, errNoTime
		} else if err != nil {
			return shown, err
		}
	}
	return shown, nil
}
