package survive

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/volume"
)

// A kubelet unmounts a volume when the containers that use it have ended. But one that has just
// started may do so while they run, and mount it anew (kubernetes v1.31,
// pkg/volume/flexvolume/probe.go, Probe: as long as it calls init, others find no such driver).
// What a container has of the volume is a mount in its own namespace, which stays; the daemon
// serves it by its record. The kubelet removes the directory of a pod, pods/UID, when the pod is
// gone. So an unmounted volume lingers for as long as that directory is there: it keeps its record,
// and RUN/lingering has an empty file with its id. Of a volume on a directory of another form,
// nobody tells when its containers have ended: its record ends with its mount.

// lingeringMost is how many of these volumes a call-out for another volume looks at, chosen at
// random: a node may have hundreds of pods that have completed and are not deleted.
const lingeringMost = 8

func (n Node) lingeringPath(id volume.ID) string { return n.path("lingering/" + id.String()) }

func (n callOut) Lingers(id volume.ID) bool { return exists(n.lingeringPath(id)) }

// lingering lists the volumes that linger.
func (n Node) lingering() (all []volume.ID, err error) {
	entries, err := os.ReadDir(n.path("lingering"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if id, err := volume.ParseID(entry.Name()); err == nil {
			all = append(all, id)
		}
	}
	return all, err
}

// podIsThere tells whether the kubelet has the directory of the pod that a volume's directory is
// of. Where the directory of all pods cannot be seen, as in another mount namespace, it may have.
// The directories are on a disk of the node's, and no server is asked about them.
func podIsThere(dir string) bool {
	pods, rest, ok := volume.SplitDir(dir)
	if !ok {
		return false
	}
	all, err := mount.OpenBelow(pods, "")
	if err != nil {
		return true
	}
	defer all.Close()
	uid, _, _ := strings.Cut(rest, "/")
	pod, err := all.Open(uid)
	if err == nil {
		pod.Close()
	}
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, mount.ErrLink)
}

// endRecord removes the record of a volume that was unmounted, or has the volume linger. The caller
// has locked the volume.
func (n callOut) endRecord(dir string) error {
	id := volume.NewID(dir)
	if _, err := n.Volumes().Get(id); err == nil && podIsThere(dir) {
		if err = n.linger(id); err == nil {
			return nil
		}
		n.Log("%s cannot stay readable where it is still mounted: %v", dir, err)
	}
	return n.removeRecord(id)
}

// forgetLingering removes the records of volumes whose pods are gone. It looks at no more volumes
// than most.
func (n callOut) forgetLingering(most int) {
	all, err := n.lingering()
	if err != nil {
		n.Log("list the volumes that linger: %v", err)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, id := range all[:min(len(all), most)] {
		record, err := n.Volumes().Get(id)
		if err == nil && podIsThere(record.Dir) {
			continue
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue // status names what cannot be read
		}
		err = n.removeIfLingering(id)
		// A call-out that has locked the volume, or one that has stopped the driver, does more.
		if err != nil && !errors.Is(err, filelock.ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
			n.Log("remove the record of volume %s, which was unmounted: %v", id, err)
		}
	}
}

func (n callOut) removeIfLingering(id volume.ID) error {
	unlock, err := n.lockVolumeUntil(id, time.Time{})
	if err != nil {
		return err
	}
	defer unlock()
	if !n.Lingers(id) { // it was mounted again meanwhile
		return nil
	}
	return n.removeRecord(id)
}

// removeRecord removes a volume's record, and the mark that it lingers.
func (n Node) removeRecord(id volume.ID) error {
	if err := n.Volumes().Delete(id); err != nil {
		return err
	}
	return n.lingerNoMore(id)
}

// linger marks a volume.
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
