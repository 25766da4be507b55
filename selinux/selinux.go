// Package selinux has the labels by which containers may read the driver's volumes where a policy
// of SELinux is enforced.
//
// A policy gives every FUSE file system the same type, fusefs_t. A policy of one's own may not let
// containers read that. So the driver mounts its file system with the option context=LABEL and a
// type that belongs to containers. The label has no categories, so that it keeps no container out:
// one mount serves all pods of the node.
//
// The option must not be given where SELinux is not enabled: mount(2) refuses it
// with EINVAL then.
package selinux

import "github.com/opencontainers/selinux/go-selinux"

// Mode is what SELinux does on this node.
type Mode string

const (
	Absent     Mode = "absent"     // not in the kernel, or disabled
	Permissive Mode = "permissive" // logs what it would deny
	Enforcing  Mode = "enforcing"
)

// CurrentMode asks the kernel, which takes a few system calls. A mount call-out that finds the
// daemon serving does not need to.
func CurrentMode() Mode {
	switch {
	case !selinux.GetEnabled():
		return Absent
	case selinux.EnforceMode() == selinux.Permissive:
		return Permissive
	default: // also if the file cannot be read: only a policy can forbid that
		return Enforcing
	}
}
