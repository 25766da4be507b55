package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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

// factsIdentity tells which directory is there, in lines: its path, what it is, and
// what keeps the daemon from it. A directory that it may not reach is none to it, and
// Landlock keeps it so.
func (n Node) factsIdentity() string {
	if n.FactsDir == "" {
		return "\nnone\n"
	}
	stat, err := statxOf(n.FactsDir)
	if err != nil {
		return n.FactsDir + "\nis not there\n"
	}
	identity := fmt.Sprintf("%s\n%d:%d %d %o\n", n.FactsDir, stat.Dev_major, stat.Dev_minor, stat.Ino, stat.Mode&unix.S_IFMT)
	for parent := n.FactsDir; parent != "/"; {
		parent = filepath.Dir(parent)
		if stat, err := statxOf(parent); err != nil || stat.Mode&0o001 == 0 {
			identity += "behind " + parent + "\n"
		}
	}
	return identity
}

// statxOf asks no server of a file system that is mounted.
func statxOf(path string) (stat unix.Statx_t, err error) {
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_TYPE|unix.STATX_MODE, &stat)
	return stat, err
}

// inVain is noted of a directory that the daemon could not be given. Call-outs that
// mount do not try again.
const inVain = "in vain\n"

// noteFacts notes which directory the daemon was given.
func (n Node) noteFacts(identity string) error {
	if err := volume.WriteFile(n.path("facts"), []byte(identity)); err != nil {
		return fmt.Errorf("note the directory of facts: %w", err)
	}
	return nil
}

func (n Node) factsNote() string {
	noted, err := os.ReadFile(n.path("facts"))
	if err != nil {
		return ""
	}
	return string(noted)
}

// factsGiven tells whether the daemon was given the directory that is there now.
func (n Node) factsGiven() bool { return n.factsNote() == n.factsIdentity() }

// factsTried tells whether that was tried, at least.
func (n Node) factsTried() bool {
	return strings.TrimSuffix(n.factsNote(), inVain) == n.factsIdentity()
}

// KeepFacts leaves the daemon the directory of facts that it has. It is for a
// configuration that cannot be read.
func (n *Node) KeepFacts() { n.FactsDir, _, _ = strings.Cut(n.factsNote(), "\n") }

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
func (n Node) FactsStale() bool { return exists(n.RunDir) && !n.factsGiven() }

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
