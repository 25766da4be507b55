package selinux

import "github.com/opencontainers/selinux/go-selinux"

// Mode is what SELinux does on this node.
type Mode string

const (
	Absent     Mode = "absent"     // not in the kernel, or disabled
	Permissive Mode = "permissive" // logs what it would deny
	Enforcing  Mode = "enforcing"
)

// CurrentMode asks the kernel. It costs a few system calls: a mount call-out that
// finds the daemon serving has no need of it.
func CurrentMode() Mode {
	switch {
	case !selinux.GetEnabled():
		return Absent
	case selinux.EnforceMode() == selinux.Permissive:
		return Permissive
	default: // also when it cannot be read, which only a policy can forbid
		return Enforcing
	}
}
