package survive

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"time"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/volume"
)

// A kubelet unmounts a volume when the containers that use it have ended. But one that has just
// started may do so while they run, and mount it anew (kubernetes v1.31,
// pkg/volume/flexvolume/probe.go, Probe: for as long as it calls init, others find no such driver).
// What a container has of the volume is in its own mount namespace, and stays; the record is what it
// is served by. So an unmounted volume that another namespace still shows is left: it keeps its
// record, and RUN/left has an empty file with its id, until it is mounted again, or a later
// call-out finds that nobody shows it any more.
//
// Whoever keeps a mount keeps a record of some hundred bytes, and nothing else.

const (
	// leftTime is how long an unmount looks for others that show its volume. It takes some
	// milliseconds with each hundred containers.
	leftTime = time.Second
	// leftHang is how many processes may not answer for the look to go on without asking the rest.
	leftHang = 16
)

func (n Node) leftPath(id volume.ID) string { return n.path("left/" + id.String()) }

// left lists the volumes that are left, with the files that say so.
func (n Node) left() (map[volume.ID]fs.FileInfo, error) {
	entries, err := os.ReadDir(n.path("left"))
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

// leave forgets a volume that was unmounted, unless another mount namespace shows it, and those that
// were left before and that none shows any more. The caller has locked the volume.
func (n Node) leave(id volume.ID) error {
	record, err := n.Volumes().Get(id)
	if err != nil { // there is none, or it is of no use to anybody
		return n.forgetRecord(id)
	}
	before, err := n.left()
	if err != nil {
		return err
	}
	shown, unknown := n.shownByOthers(time.Now().Add(leftTime))
	who, is := shown[id]
	if !is && unknown == nil {
		err = n.forgetRecord(id)
	} else if err := n.markLeft(id); err != nil {
		n.Log("%s is unmounted, and cannot stay for containers that may still use it: %v", record.Dir, err)
		return n.forgetRecord(id)
	}
	switch {
	case is:
		n.Log("%s is unmounted, and stays readable where it is still mounted, as in the container of process %d (%s)", record.Dir, who.PID, command(who.PID))
	case unknown != nil:
		n.Log("%s is unmounted, and may still be mounted in containers, not all of which could be looked at: %v", record.Dir, unknown)
	}
	if unknown == nil {
		n.forgetLeft(before, shown)
	}
	return err
}

// tidyLeft forgets the volumes that were left and that no mount namespace shows any more.
func (n Node) tidyLeft() {
	before, err := n.left()
	if len(before) == 0 && err == nil {
		return
	}
	var shown map[volume.ID]mount.Namespace
	if err == nil {
		shown, err = n.shownByOthers(time.Now().Add(healTime))
	}
	if err != nil {
		n.Log("look for containers that still show volumes that were unmounted: %v", err)
		return
	}
	n.forgetLeft(before, shown)
}

// forgetLeft forgets those that were left before the others were looked at, and that none of these
// shows. One that was mounted since, also if it was left anew, or that a call-out has locked, is for a
// later call-out.
func (n Node) forgetLeft(before map[volume.ID]fs.FileInfo, shown map[volume.ID]mount.Namespace) {
	for id, left := range before {
		if _, is := shown[id]; is {
			continue
		}
		if err := n.forgetIfLeft(id, left); err != nil && !errors.Is(err, filelock.ErrLocked) {
			n.Log("forget volume %s, which was unmounted: %v", id, err)
		}
	}
}

func (n Node) forgetIfLeft(id volume.ID, left fs.FileInfo) error {
	unlock, err := n.lockBytes(int64(id), 1, time.Time{})
	if err != nil {
		return err
	}
	defer unlock()
	now, err := os.Lstat(n.leftPath(id))
	if err != nil || !os.SameFile(now, left) || !now.ModTime().Equal(left.ModTime()) {
		return nil
	}
	return n.forgetRecord(id)
}

// forgetRecord removes a volume's record, and the mark that it is left.
func (n Node) forgetRecord(id volume.ID) error {
	if err := n.Volumes().Delete(id); err != nil {
		return err
	}
	_, err := n.unmarkLeft(id)
	return err
}

func (n Node) markLeft(id volume.ID) error {
	if err := os.Mkdir(n.path("left"), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := n.unmarkLeft(id); err != nil { // or it would have the time of the first
		return err
	}
	return os.WriteFile(n.leftPath(id), nil, 0o600)
}

// unmarkLeft reports whether the volume was left.
func (n Node) unmarkLeft(id volume.ID) (was bool, err error) {
	err = os.Remove(n.leftPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// shownByOthers lists the volumes that other mount namespaces show, each with one of these. An error
// says that it does not know all.
func (n Node) shownByOthers(until time.Time) (shown map[volume.ID]mount.Namespace, err error) {
	for range 5 {
		shown, err = n.shownNow(until)
		if err == nil || proc.IsShort(err) || time.Now().After(until) {
			break
		}
	}
	return shown, err
}

// errChanged says that who looked at all mounts may have missed some.
var errChanged = errors.New("what is served has changed meanwhile")

func (n Node) shownNow(until time.Time) (map[volume.ID]mount.Namespace, error) {
	all, err := n.dead() // they will be healed
	if err != nil {
		return nil, err
	}
	defer all.close()
	there, err := n.look()
	if err != nil || there.device == 0 && len(all) == 0 {
		return nil, err
	}
	pids, err := proc.PIDs()
	if err != nil {
		return nil, err
	}
	namespaces, untold, err := mount.OthersOf(pids, leftHang)
	if err != nil {
		return nil, err
	}
	shown := map[volume.ID]mount.Namespace{}
	for _, namespace := range append(namespaces, untold...) {
		if time.Now().After(until) {
			return shown, errNoTime
		}
		infos, err := namespace.Mounts(n.fsType(), n.Name.String())
		if err != nil { // its process has ended, and others may be in it
			return shown, err
		}
		for _, info := range infos {
			device := deviceOf(info)
			if id, ofVolume := volumeOf(info); ofVolume && (device == there.device || all.has(device)) {
				shown[id] = namespace
			}
		}
	}
	// Whoever heals puts a file system in the place of another, which we did not know.
	if now, err := n.look(); err != nil || now.device != there.device {
		return shown, cmp.Or(err, errChanged)
	}
	return shown, nil
}
