package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keep gives the installed binary a second name, unless it is another copy of
// the one that is being installed, or none that Rollback would take: one that was
// altered must not push out a good one.
func (t Target) keep(s staged) error {
	binary, err := os.Open(filepath.Join(s.dir, t.Driver.File()))
	if err != nil {
		return err
	}
	defer binary.Close()
	if same, err := sameFile(t.Binary(), binary, anyMode); err != nil || same {
		return err
	}
	second := filepath.Join(s.root, "previous~"+t.Driver.File(), t.Driver.File())
	if err := os.Mkdir(filepath.Dir(second), 0o700); err != nil {
		return err
	}
	if err := os.Link(t.Binary(), second); errors.Is(err, fs.ErrNotExist) {
		return nil // there is none
	} else if err != nil {
		return err
	}
	if answers(second) != nil {
		return nil
	}
	return os.Rename(second, t.previous())
}

// Rollback installs the version before the present one, which becomes the version
// before: a second rollback undoes the first.
func (t Target) Rollback() error {
	previous, err := os.Open(t.previous())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("roll back: %s has no version before the present one", t.Dir())
	} else if err != nil {
		return err
	}
	defer previous.Close()
	_, err = t.Install(Content{Binary: previous})
	return err
}
