package mounter

import (
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/confine"
)

// rights are the capabilities of a mounter, and what its children can get. With them it is the
// equal of root all the same: who can mount can become anything.
var rights = []uint{
	unix.CAP_SYS_ADMIN,       // mount, enter namespaces, abort a connection
	unix.CAP_SYS_CHROOT,      // enter a mount namespace
	unix.CAP_SYS_PTRACE,      // see which files other users' processes have open, and take a connection (recover.go)
	unix.CAP_DAC_READ_SEARCH, // walk through other users' directories
}

// restrict gives up all other capabilities, in all threads, and the system calls that it does not
// need: EPERM for these. Its children have no more than it has. Landlock would forbid mounting.
func restrict(log calllog.Log) error {
	if err := confine.KeepCapabilities(rights); err != nil {
		return err
	}
	if err := confine.ToMounting(); err != nil { // of a kernel that has none
		log.Line("it goes on with less confinement: seccomp: %v", err)
	}
	return nil
}
