package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"example.com/pod-info-fuse/facts"
)

// delivery is what was delivered to a directory of facts, and the list of it that is
// kept there.
type delivery struct {
	dir   string
	Made  []string `json:"made"`  // directories, the outermost first
	Names []string `json:"names"` // facts
}

const deliveryFile = ".pod-info-fuse-delivered"

// RemoveFacts removes what was delivered to a directory.
func RemoveFacts(dir string) error {
	d := delivery{dir: dir}
	err := d.read()
	if err != nil || len(d.Names) == 0 && len(d.Made) == 0 {
		return err
	}
	for _, name := range slices.Clone(d.Names) {
		err = errors.Join(err, d.remove(name))
	}
	if err != nil {
		return err
	}
	if err := os.Remove(d.path(deliveryFile)); err != nil {
		return err
	}
	for _, made := range slices.Backward(d.Made) {
		_ = os.Remove(made) // unless somebody else's facts are there
	}
	return nil
}

// put writes a fact, if it is not there already. One that somebody else has made
// stays.
func (d *delivery) put(name string, content []byte) error {
	if err := facts.Check(name, int64(len(content))); err != nil {
		return err
	}
	there, err := os.ReadFile(d.path(name))
	ours := slices.Contains(d.Names, name)
	switch {
	case err == nil && bytes.Equal(there, content) && ours:
		return nil
	case err == nil && !ours:
		return fmt.Errorf("%s is there already, and not ours", d.path(name))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if !ours { // noted first: who is killed in between has noted too much, which does no harm
		d.Names = append(d.Names, name)
		if err := d.note(); err != nil {
			return err
		}
	}
	return d.replace(name, content)
}

func (d *delivery) remove(name string) error {
	if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.Names = slices.DeleteFunc(d.Names, func(n string) bool { return n == name })
	return d.note()
}

func (d *delivery) replace(name string, content []byte) error {
	hidden := d.path(".new-" + name)
	if err := os.Remove(hidden); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := write(hidden, bytes.NewReader(content), 0o644); err != nil {
		return err
	}
	return os.Rename(hidden, d.path(name))
}

func (d *delivery) path(name string) string { return filepath.Join(d.dir, name) }

// read reads what was delivered before.
func (d *delivery) read() error {
	text, err := os.ReadFile(d.path(deliveryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := json.Unmarshal(text, d); err != nil {
		return fmt.Errorf("%s: %w; remove it", d.path(deliveryFile), err)
	}
	return nil
}

func (d *delivery) note() error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return d.replace(deliveryFile, append(text, '\n'))
}

// make makes the directory, which all can read, and notes what it made.
func (d *delivery) make() error {
	for _, dir := range []string{filepath.Dir(d.dir), d.dir} {
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("make the directory of facts: %w", err)
		}
		d.Made = append(d.Made, dir)
		if err := os.Chmod(dir, 0o755); err != nil { // there was a umask
			return err
		}
	}
	return nil
}
