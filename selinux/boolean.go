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
// policy asks for one.
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

// Boolean is a switch that a policy leaves to the administrator.
type Boolean struct {
	Root string // Root, or a copy of such a tree
	Name string
}

// State reads the value in force.
func (b Boolean) State() (State, error) {
	// "active pending": what is in force, and what will be with the next commit.
	text, err := os.ReadFile(b.path())
	if errors.Is(err, fs.ErrNotExist) {
		return NoSuch, nil
	} else if err != nil {
		return NotKnown, err
	}
	switch fields := strings.Fields(string(text)); {
	case len(fields) == 2 && fields[0] == "0":
		return Off, nil
	case len(fields) == 2 && fields[0] == "1":
		return On, nil
	}
	return NotKnown, fmt.Errorf("%s has %.40q; it should have two digits", b.path(), text)
}

// Enable turns the boolean on until the policy is loaded anew, at the next boot
// at the latest. Like setsebool without -P, it commits what others have pending,
// too: the kernel has no other way.
func (b Boolean) Enable() error {
	for _, path := range []string{b.path(), filepath.Join(b.Root, "commit_pending_bools")} {
		if err := write(path, "1"); err != nil {
			return fmt.Errorf("set %s: %w", b.Name, err)
		}
	}
	return nil
}

func (b Boolean) path() string { return filepath.Join(b.Root, "booleans", b.Name) }

// write writes to a file that must be there; the kernel takes a value in one write.
func write(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}
