package confine

import (
	"errors"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// restrictFiles has Landlock refuse the use of files, but for those of the rules and the
// execution of our own binary. As far as the kernel can, it refuses TCP and the abstract
// sockets of others as well. It lets signals pass: a standby must be able to kill a process
// that another one started.
func restrictFiles(rules Rules) error {
	config := landlock.V7
	config.Scoped = ll.ScopeAbstractUnixSocket
	allowed := []landlock.Rule{landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSExecute, "/proc/self/exe")}
	for _, path := range rules.Read {
		rights := landlock.AccessFSSet(ll.AccessFSReadFile)
		var stat unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat)
		if err == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR {
			rights |= ll.AccessFSReadDir // of a file, Landlock refuses it, and all rules with it
		}
		// One may have gone since it was looked for.
		allowed = append(allowed, landlock.PathAccess(rights, path).IgnoreIfMissing())
	}
	if err := config.BestEffort().Restrict(allowed...); err != nil {
		return err
	}
	if !Landlocked() {
		return errors.New("this kernel has none, or it is not switched on (lsm= on the kernel's command line)")
	}
	return nil
}

// Landlocked tries whether Landlock is in force in this process: nothing else would keep it
// from opening the root directory. Other processes cannot tell.
func Landlocked() bool {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.EACCES)
}
