package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/volume"
)

// mountVolume mounts the volume, with the daemon that is there or a new one, and reports whether
// it is a new mount: false, if the volume was mounted already, or has been healed.
func (n callOut) mountVolume(record volume.Record) (mounted bool, err error) {
	defer n.forgetLingering(lingeringMost)
	mounted, err = n.mountOnce(record)
	if isDead(err) {
		// It is known now that this daemon is of no use any more, or that all of it died
		// while it was asked; another call-out may have removed its mount by then.
		mounted, err = n.mountOnce(record)
	}
	return mounted, err
}

func (n callOut) mountOnce(record volume.Record) (mounted bool, err error) {
	point, err := volume.OpenDir(record.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("directory %q does not exist; the kubelet makes it before it calls mount", record.Dir)
	} else if err != nil {
		return false, err
	}
	point.Close()
	release, err := n.Acquire()
	if err != nil {
		return false, err
	}
	defer release()
	unlock, err := n.LockVolume(record.ID())
	if err != nil {
		return false, err
	}
	defer unlock()
	return n.mountOn(record)
}

// mountOn mounts according to what the directory has on it already. A mount that is of no use
// goes at the very last, when only the bind mount is left to do: a directory that was mounted
// stays so if anything before it fails, for a kubelet may remove it otherwise (kubernetes before
// v1.37 and the patches of v1.34 to v1.36 that have pull request 139045,
// pkg/volume/csi/csi_mounter.go, SetUpAt).
func (n callOut) mountOn(record volume.Record) (mounted bool, err error) {
	point, err := volume.OpenDir(record.Dir)
	if err != nil {
		return false, err
	}
	defer point.Close()
	there, err := n.lookOn(point)
	if err != nil {
		return false, err
	}
	if there == VolumeDead && n.healOn(point, record.ID()) {
		there = VolumeOK // and the directory has had a mount all the time
	}
	before, err := n.Volumes().Get(record.ID())
	switch {
	case there == VolumeForeign:
		return false, fmt.Errorf("directory %q is a mount point of something else; unmount that first", record.Dir)
	case there == VolumeOK && err == nil && before.PodUID != record.PodUID:
		return false, fmt.Errorf("directory %q is mounted for another pod, %s; unmount it first", record.Dir, before.PodUID)
	case there == VolumeOK && err == nil && before.PodName == "" && record.PodName != "":
		return false, n.Volumes().Put(record) // it was made anew from its path, and lacks the rest
	case there == VolumeOK && !errors.Is(err, fs.ErrNotExist):
		return false, err // nil: it is accepted as it is
	case err == nil && before.Dir != record.Dir:
		return false, fmt.Errorf("directories %q and %q have the same id; rename the volume", record.Dir, before.Dir)
	}
	known := err == nil
	if !known && there == VolumeNotMounted {
		if err := n.CheckNew(); err != nil {
			return false, err
		}
	}
	if known && before.PodUID == record.PodUID {
		record.Mounted = before.Mounted // a container that still has it shares the files, and their times never change
	}
	put := (*mount.Point).Bind
	if there != VolumeNotMounted {
		put = n.replaceAll
	}
	if err := n.lingerNoMore(record.ID()); err != nil { // first: a mark would end the record of what is mounted
		return false, err
	}
	if err = n.bindNew(record, point, put); err == nil {
		return true, nil
	}
	// Whoever heals, or stops the driver, knows what is mounted by its record: where it may be, a
	// record stays.
	switch state, _ := n.volumeState(record.Dir, 0, new(mount.Table)); {
	case known && state == VolumeNotMounted: // a container may have it
		err = errors.Join(err, n.Volumes().Put(before), n.linger(record.ID()))
	case state == VolumeNotMounted:
		err = errors.Join(err, n.Volumes().Delete(record.ID()))
	case known:
		err = errors.Join(err, n.Volumes().Put(before))
	}
	return false, err
}

// bindNew writes the record, from which the daemon knows the volume, asks the daemon for the
// volume's directory, and puts it on the kubelet's. If the daemon does not answer, its connection
// is ended: errSilent. The next use starts another daemon.
func (n callOut) bindNew(record volume.Record, on *mount.Point, put func(on, source *mount.Point) error) error {
	if err := n.Volumes().Put(record); err != nil {
		return fmt.Errorf("record the volume: %w", err)
	}
	source, err := n.introduce("/"+record.ID().String(), record, n.varying())
	if err == nil {
		defer source.Close()
		err = put(on, source)
	}
	if !errors.Is(err, unix.EIO) || isDead(err) {
		return err
	}
	if serving := n.note(noteOfVersion); serving != n.Version {
		return fmt.Errorf("version %s serves and cannot read what version %s records of the volume; "+
			"run %s upgrade, which says why version %[2]s does not serve: %[4]w", serving, n.Version, n.Program, err)
	}
	return err
}

// replaceAll removes the mounts of ours from a directory, of which the topmost is open, and binds
// the source there.
func (n callOut) replaceAll(top, source *mount.Point) error {
	if err := n.detachAll(top.Path); err != nil {
		return err
	}
	on, err := volume.OpenDir(top.Path)
	if err != nil {
		return err
	}
	defer on.Close()
	return on.Bind(source)
}

// unmountVolume implements CallOuts.Unmount. Where the volume may linger, it keeps its record for
// as long as its pod is there.
func (n callOut) unmountVolume(dir string, mayLinger bool) error {
	unlock, err := n.LockVolume(volume.NewID(dir))
	if errors.Is(err, fs.ErrNotExist) { // there may be mounts, but no records
		return n.removeAll(dir)
	} else if err != nil {
		return err
	}
	defer unlock()
	if err := n.removeAll(dir); err != nil {
		return err
	}
	if mayLinger {
		return n.endRecord(dir)
	}
	return n.removeRecord(volume.NewID(dir))
}

// detachAll removes all mounts of ours from the directory.
func (n callOut) detachAll(dir string) error {
	const tries = 100 // more than are ever stacked
	for range tries {
		if more, err := n.detach(dir); err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("directory %q is still mounted after %d attempts to unmount it", dir, tries)
}

// detach removes the topmost mount from the directory and reports whether
// there was one.
func (n callOut) detach(dir string) (bool, error) {
	point, err := openDir(dir)
	if err != nil || point == nil {
		return false, err
	}
	defer point.Close()
	there, err := n.lookOn(point)
	switch {
	case err != nil || there == VolumeNotMounted:
		return false, err
	case there == VolumeForeign:
		return false, fmt.Errorf("directory %q is a mount point of something else; it is left as it is", dir)
	}
	if err := point.Detach(); !errors.Is(err, unix.EINVAL) {
		return true, err
	}
	return true, nil // another process was faster; look again
}

// removeAll removes all mounts of the driver from the directory.
func (n callOut) removeAll(dir string) error {
	if n.OtherVolumes != nil {
		if err := n.OtherVolumes(n.Node).Unmount(dir); err != nil {
			return err
		}
	}
	return n.detachAll(dir)
}

// cleanDir is [volume.CleanDir], and refuses the driver's own run directory with all that is above
// it and below: what is mounted there covers what the driver needs, and a process that serves would
// wait for itself.
func (n Node) cleanDir(dir string) (string, error) {
	clean, err := volume.CleanDir(dir)
	if err != nil {
		return "", err
	}
	if overlap(clean, n.RunDir) {
		return "", fmt.Errorf("directory %q cannot be a volume: the driver has its files in %s; name another one", dir, n.RunDir)
	}
	return clean, nil
}

// overlap tells whether two directories are the same, or one is below the other.
func overlap(one, other string) bool {
	return strings.HasPrefix(one+"/", other+"/") || strings.HasPrefix(other+"/", one+"/")
}

func (n callOut) CheckNew() error {
	if !n.RefusesNew() {
		return nil
	}
	return fmt.Errorf("the driver is being removed from this node and takes no new volumes; "+
		"%s install takes the removal back", n.Program)
}

func (n callOut) RefuseNew(refuse bool) (err error) {
	path := n.path(noteOfRefusal)
	if refuse {
		err = os.WriteFile(path, nil, 0o640)
	} else {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (n callOut) RefusesNew() bool { return exists(n.path(noteOfRefusal)) }
