package node

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/confine"
	"example.com/pod-info-fuse/facts"
	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/mount"
	"example.com/pod-info-fuse/volume"
)

// The daemon can read the directory of facts that was there when it was started:
// Landlock knows it by its inode. Where it is another one by now, or is there for
// the first time, the next call-out starts the daemon anew, as in an upgrade.

// factsIdentity tells which directory is there.
func (n Node) factsIdentity() string {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, n.FactsDir, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &stat)
	if err != nil {
		return n.FactsDir + " is not there\n"
	}
	return fmt.Sprintf("%s %d:%d %d\n", n.FactsDir, stat.Dev_major, stat.Dev_minor, stat.Ino)
}

// noteFacts notes which directory the daemon is given.
func (n Node) noteFacts() error {
	if err := volume.WriteFile(n.path("facts"), []byte(n.factsIdentity())); err != nil {
		return fmt.Errorf("note the directory of facts: %w", err)
	}
	return nil
}

// factsNoted tells whether the daemon was given the directory that is there now.
func (n Node) factsNoted() bool {
	noted, err := os.ReadFile(n.path("facts"))
	return err == nil && string(noted) == n.factsIdentity()
}

// Facts are the operator's facts as the daemon sees them.
type Facts struct {
	Count   int
	LeftOut []facts.LeftOut
	// Stale says that the daemon was given another directory, until the next
	// call-out.
	Stale bool
}

// FactsStale tells whether the daemon was given another directory of facts than the
// one that is there.
func (n Node) FactsStale() bool { return exists(n.RunDir) && !n.factsNoted() }

// Facts looks at the directory of facts.
func (n Node) Facts() (f Facts, err error) {
	f.Stale = n.FactsStale()
	err = asDaemon(func() error {
		all, left, err := fs.FactsDir(n.FactsDir).Scan()
		f.Count, f.LeftOut = len(all), left
		return err
	})
	return f, err
}

// asDaemon calls a function on a thread that may do with files what the daemon's
// user may.
func asDaemon(f func() error) error {
	return mount.Own().Do(func() error {
		// Of this thread only, unlike those of package syscall. To leave user 0 takes
		// the capabilities over files with it (capabilities(7)).
		err := errors.Join(unix.Setgroups(nil), unix.Setfsgid(confine.GID), unix.Setfsuid(confine.UID))
		if err != nil {
			return os.NewSyscallError("take the daemon's user for files", err)
		}
		return f()
	})
}
