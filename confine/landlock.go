package confine

import (
	"errors"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// restrictFiles has Landlock refuse the use of files, but for what the rules say
// and the execution of our own binary. As far as the kernel can, it refuses TCP
// and the abstract sockets of others as well. It lets signals pass: a standby must
// be able to kill what was started by another.
func restrictFiles(rules Rules) error {
	config := landlock.V7
	config.Scoped = ll.ScopeAbstractUnixSocket
	if err := config.BestEffort().Restrict(
		// One may have gone since it was looked for.
		landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSReadDir, rules.Read...).IgnoreIfMissing(),
		landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSExecute, "/proc/self/exe"),
	); err != nil {
		return err
	}
	if !Landlocked() {
		return errors.New("this kernel has none, or it is not switched on (lsm= on the kernel's command line)")
	}
	return nil
}

// Landlocked tries whether Landlock is in force in this process: nothing else would
// keep it from opening the root directory. From outside, nobody can tell.
func Landlocked() bool {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.EACCES)
}
