package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/metrics"
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

func (n callOut) MakeReadable(path string) error { return makeDir(path, n.gid(), readable) }
