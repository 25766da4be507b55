// Package selinux tells whether containers may read the driver's volumes where a policy of
// SELinux is enforced.
//
// A policy gives every FUSE file system the same type, fusefs_t. Containers may
// read that
//
//   - always, since container-selinux 2.75 (October 2018);
//   - before, where the administrator has turned on the boolean
//     virt_sandbox_use_fusefs, which opens all FUSE file systems of the node to
//     all containers.
//
// The driver needs neither: it mounts its file system with the option
// context=LABEL and a type that belongs to containers. The label has no categories, so
// that it keeps no container out: one mount serves all pods of the node.
//
// The option must not be given where SELinux is not enabled: mount(2) refuses it
// with EINVAL then.
package selinux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/selinux/go-selinux"
)

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

// UseFUSE is the boolean that lets containers use FUSE file systems, where the
// policy asks for one. The driver does not set it: the administrator decides, since it opens
// all FUSE file systems of the node.
const UseFUSE = "virt_sandbox_use_fusefs"

// Root is where the kernel's interface to the policy is mounted.
const Root = "/sys/fs/selinux"

// State is the state of a boolean.
type State string

const (
	On       State = "on"
	Off      State = "off"
	NoSuch   State = "absent"  // the policy has no such boolean, or there is no policy
	NotKnown State = "unknown" // it cannot be read
)

// BooleanState reads the value of UseFUSE that is in force. root is Root, or a copy of such a
// tree.
func BooleanState(root string) (State, error) {
	path := filepath.Join(root, "booleans", UseFUSE)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return NoSuch, nil
	} else if err != nil {
		return NotKnown, err
	}
	// "active pending": the value in force, and the one after the next commit.
	switch fields := strings.Fields(string(text)); {
	case len(fields) == 2 && fields[0] == "0":
		return Off, nil
	case len(fields) == 2 && fields[0] == "1":
		return On, nil
	}
	return NotKnown, fmt.Errorf("%s has %.40q; it should have two digits", path, text)
}
