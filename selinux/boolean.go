package selinux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

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

// BooleanState reads the value of a boolean that is in force. root is Root, or a copy of
// such a tree.
func BooleanState(root, name string) (State, error) {
	path := filepath.Join(root, "booleans", name)
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
