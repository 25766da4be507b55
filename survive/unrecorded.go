package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/volume"
)

// Somebody may remove the run directory, or unmount it, while volumes are mounted. Then the
// records are lost, and with them the list of our file systems; the kubelet sees a mount, and
// never calls mount again.
//
// Only root mounts in the node's own mount namespace, so mounts there can be believed. Other
// users have fusermount(1), which mounts as root for them, and writes their user into the
// options of the file system; and a mount in a user namespace of their own does not get out
// of their mount namespace (mount_namespaces(7)). So root made a mount of our type and source
// for user 0, and only we do. Its directory has the pod's UID and the volume's name; its id
// in the node mount is the hash of that.

// volumeMounts lists the mounts of whole volumes in our own namespace.
func (n healing) volumeMounts(table *mount.Table) (found []*mountinfo.Info, err error) {
	infos, err := table.All(n.fsType(), n.Name.String())
	for _, info := range infos {
		if _, ok := wholeVolumeOf(info); ok && !n.isKept(info.Mountpoint) &&
			slices.Contains(strings.Split(info.VFSOptions, ","), "user_id=0") {
			found = append(found, info)
		}
	}
	return found, err
}

// wholeVolumeOf returns the volume that a mount shows, unless it is for a subPath.
func wholeVolumeOf(info *mountinfo.Info) (id volume.ID, ok bool) {
	id, ok = volumeOf(info)
	return id, ok && strings.Count(rootOf(info), "/") == 1
}

// unrecorded lists the volumes of the node mount that are mounted, but have no record.
func (n healing) unrecorded(table *mount.Table) (map[volume.ID]volume.Record, error) {
	infos, err := n.volumeMounts(table)
	return n.WithoutRecord(infos, n.Volumes()), err
}

func (n healing) WithoutRecord(mounts []*mountinfo.Info, records volume.Store) map[volume.ID]volume.Record {
	all := map[volume.ID]volume.Record{}
	for _, info := range mounts {
		id, ok := wholeVolumeOf(info)
		if !ok {
			continue
		}
		if _, err := records.Get(id); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		record, known := n.recordOf(id, info.Mountpoint)
		if _, is := all[id]; known || !is {
			all[id] = record
		}
	}
	return all
}

func (n healing) Unrecorded() (int, error) {
	all, err := n.unrecorded(new(mount.Table))
	lost, lostErr := n.lostOthers()
	return len(all) + len(lost), errors.Join(err, lostErr)
}

// recordOf makes a volume's record of where it is mounted. It reports false where that does not
// tell: the directory is not of the kubelet's form, or the volume was mounted elsewhere first.
func (n healing) recordOf(id volume.ID, mountPoint string) (record volume.Record, known bool) {
	record = volume.Record{Dir: mountPoint, Mounted: time.Now().UTC().Round(0)}
	_, rest, ok := volume.SplitDir(mountPoint)
	if !ok {
		return record, false
	}
	parts := strings.Split(rest, "/") // UID/volumes/PLUGIN/NAME, and for CSI, /mount
	record.PodUID, record.Name = parts[0], parts[3]
	known = volume.NewID(mountPoint) == id && (parts[2] == n.Name.Dir() || parts[2] == volume.CSIPlugin)
	return record, known && record.Check() == nil
}

// adopt makes records for volumes that have none, and has those file systems healed that are
// mounted, but not known as dead. It is for when the run directory may have been lost; the caller
// holds the exclusive lock. It returns the volumes whose records were lost, but not those that are
// to be healed next.
func (n healing) adopt() (adopted []Healed, err error) {
	// The node mount's own file system may have no lock holder for a moment, during a
	// hand-over. It is not dead.
	there, err := n.look()
	if err != nil {
		return nil, err
	}
	infos, err := n.volumeMounts(new(mount.Table))
	if err != nil {
		return nil, err
	}
	// Nobody makes the records of other volumes anew: their path does not tell what they are for.
	others, err := n.lostOthers()
	if err != nil {
		adopted = append(adopted, Healed{Path: "volumes that have no record", Err: err})
	}
	for _, v := range others {
		adopted = append(adopted, Healed{Path: v.Dir, Err: errNotTold})
	}
	for _, info := range infos {
		record, made, err := n.adoptVolume(info)
		switch {
		case err != nil:
			adopted = append(adopted, Healed{Path: info.Mountpoint, Err: err})
		case deviceOf(info) != there.device:
			if err := n.keepMount(info); err != nil {
				return adopted, err
			}
		case made:
			adopted = append(adopted, Healed{Path: info.Mountpoint, Volume: record})
		}
	}
	return adopted, nil
}

var errNotTold = errors.New("its record is lost, and its path does not tell what it is for; " +
	"unmount it, or delete its pod")

// openOn opens the directory that a mount is on; nil: it was unmounted just now.
func openOn(info *mountinfo.Info) (*mount.Point, error) {
	point, err := openDir(info.Mountpoint)
	if err == nil && point != nil && point.Device() != deviceOf(info) {
		point.Close()
		return nil, nil
	}
	return point, err
}

// keepMount has the file system of a mount healed.
func (n healing) keepMount(info *mountinfo.Info) error {
	point, err := openOn(info)
	if err != nil || point == nil {
		return err
	}
	defer point.Close()
	if err := n.keep(point); !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil // unmounted while we kept it
}

// adoptVolume makes a volume's record if it has none.
func (n healing) adoptVolume(info *mountinfo.Info) (record volume.Record, made bool, err error) {
	id, _ := volumeOf(info)
	if _, err := n.Volumes().Get(id); !errors.Is(err, fs.ErrNotExist) {
		return record, false, err // nil, as nearly always
	}
	unlock, err := n.lockVolumeUntil(id, time.Now().Add(n.within(healLockTimeout))) // an unmount removes both
	if err != nil {
		return record, false, err
	}
	defer unlock()
	point, err := openOn(info)
	if err != nil || point == nil {
		return record, false, err
	}
	point.Close()
	record, ok := n.recordOf(id, info.Mountpoint)
	if !ok {
		return record, false, errNotTold
	}
	// In another namespace, the run directory may just not be visible, and the daemon lives.
	if is, err := proc.IsOnNode(); err != nil || !is {
		return record, false, errors.New("its record is lost, and this is not the node's own mount namespace, or the kernel does not tell; call restore there, with all capabilities")
	}
	if err := n.Volumes().Put(record); err != nil {
		return record, false, fmt.Errorf("record the volume: %w", err)
	}
	n.Log("%s was mounted, but had no record: it was made anew from its path", info.Mountpoint)
	return record, true, nil
}

// lostOthers lists those of them that are mounted, but have no record.
func (n healing) lostOthers() ([]Volume, error) {
	all, err := n.others()
	return slices.DeleteFunc(all, func(v Volume) bool { return v.State != VolumeUnrecorded }), err
}
