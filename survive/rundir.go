package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/metrics"
	"example.com/pod-info-fuse/survive/volume"
)

// makeDirs makes the run directory's directories, or gives them the owners and the
// modes that they must have: root writes, the daemon reads, and nobody else sees
// which pods there are. Files get the group from the directory that they are made
// in, by its set-group-ID bit.
func (n callOut) makeDirs() error {
	for _, d := range []struct {
		path  string
		group int
		mode  os.FileMode
	}{
		{filepath.Dir(n.RunDir), 0, 0o755},
		{n.RunDir, n.gid(), readable},
		{n.Volumes().Dir, n.gid(), readable},
		{n.fsPath(), 0, 0o700},
	} {
		if err := makeDir(d.path, d.group, d.mode); err != nil {
			return fmt.Errorf("make the run directory: %w", err)
		}
	}
	return nil
}

// chooseUser chooses the user of a daemon that is about to be started. It stays that of all the
// daemon's processes until another daemon is started, also in an upgrade.
func (n callOut) chooseUser() error {
	if err := os.Remove(n.path(noteOfUser)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	uid, err := confine.RandomUser()
	if err == nil {
		err = os.WriteFile(n.path(noteOfUser), strconv.AppendUint(nil, uint64(uid), 10), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note the daemon's user: %w", err)
	}
	return nil
}

// readable is the mode of directories that the daemon reads.
const readable = os.ModeSetgid | 0o750

// makeDir makes a directory, or takes the one that is there, if it is root's.
func makeDir(path string, group int, mode os.FileMode) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	directory, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer directory.Close()
	info, err := directory.Stat()
	if err != nil {
		return err
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
		return fmt.Errorf("%s belongs to user %d, not to root; remove it", path, owner)
	}
	// In this order, because a change of the group may clear the bit.
	if err := directory.Chown(0, group); err != nil {
		return err
	}
	return directory.Chmod(mode)
}

// removeRunDir removes the driver's files, the lock last: from then on another call-out may
// build anew.
func (n callOut) removeRunDir() error {
	if err := errors.Join(os.RemoveAll(n.Volumes().Dir), os.RemoveAll(n.path("lingering"))); err != nil {
		return err
	}
	// Files that killed call-outs were writing, and notes that were not kept; see
	// volume.WriteFile and noteStarted.
	names, _ := filepath.Glob(n.path(".new-*"))
	for _, name := range []string{"fs", "connection.json", "control", metrics.CallsFileName, counters.FileName, "crash", noteOfUser, noteOfInput, noteOfCompanion, "cgroup", noteOfVersion, "cgroup-problem", "upgrade-failed", noteOfRefusal, "daemon.lock", "lock"} {
		names = append(names, n.path(name))
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	// These fail when another call-out builds anew, or another driver is there.
	_ = os.Remove(n.RunDir)
	_ = os.Remove(filepath.Dir(n.RunDir))
	return nil
}

// cleanDir is [volume.CleanDir], and refuses the driver's own run directory with all that is above it
// and below: what is mounted there covers what the driver needs, and a process that serves would
// wait for itself.
func (n Node) cleanDir(dir string) (string, error) {
	clean, err := volume.CleanDir(dir)
	if err != nil {
		return "", err
	}
	// By the text first: what is below its own file system would be asked of a daemon that may not answer.
	if overlap(clean, n.RunDir) || overlap(withoutLinks(clean), withoutLinks(n.RunDir)) {
		return "", fmt.Errorf("directory %q cannot be a volume: the driver has its files in %s; name another one", dir, n.RunDir)
	}
	return clean, nil
}

// overlap tells whether two directories are the same, or one is below the other.
func overlap(one, other string) bool {
	return strings.HasPrefix(one+"/", other+"/") || strings.HasPrefix(other+"/", one+"/")
}

// withoutLinks is a path without links in the middle: /var/run is a link to /run. A path whose parent is not
// there stays as it is: nothing can be mounted there.
func withoutLinks(path string) string {
	parent, err := mount.Real(filepath.Dir(path))
	if err != nil {
		return path
	}
	return filepath.Join(parent, filepath.Base(path))
}

// MakeReadable makes a directory in the run directory, or takes the one that is there, whatever the umask is: root
// writes there, the daemon reads, and nobody else sees it.
func (n callOut) MakeReadable(path string) error { return makeDir(path, n.gid(), readable) }

// RefuseNew has the driver refuse new volumes, or take them again. One that is being removed would
// otherwise never be without volumes on a node whose pods come and go. Where the driver has no run
// directory, it has no volumes, and nothing is noted. A reboot forgets it.
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

// RefusesNew tells whether the driver refuses new volumes.
func (n callOut) RefusesNew() bool { return exists(n.path(noteOfRefusal)) }

// CheckNew is the error of a mount that would be of a new volume while the driver refuses them.
// A volume that is mounted, or has a record, is not new: its kubelet may repeat the call.
func (n callOut) CheckNew() error {
	if !n.RefusesNew() {
		return nil
	}
	return fmt.Errorf("the driver is being removed from this node and takes no new volumes; "+
		"%s install takes the removal back", n.Program)
}
