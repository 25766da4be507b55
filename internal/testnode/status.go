package testnode

import (
	"strconv"
	"syscall"
)

// Confinement is a process's part of .daemon.confinement, as a script sees it.
type Confinement struct {
	UID, GID             uint32
	Groups               []uint32
	Capabilities         string
	NoNewPrivs, Dumpable bool
	Seccomp, Landlock    bool
	ReadableBinary       bool
}

// DaemonGID is the group of every daemon of this program.
const DaemonGID = 4200000001

// User is the user of the daemon, which root has noted.
func (d Driver) User() syscall.Credential {
	d.T.Helper()
	uid, err := strconv.ParseUint(Read(d.T, d.RunDir, "user"), 10, 32)
	if err != nil {
		d.T.Fatal(err)
	}
	return syscall.Credential{Uid: uint32(uid), Gid: DaemonGID}
}
