package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/facts"
)

// delivery is what was delivered to a directory of facts, and the list of it that is
// kept there. Others write to the directory, too: what is read there can be anything,
// and every driver has a list of its own.
type delivery struct {
	dir   string
	list  string   // the name of the list's file
	Made  []string `json:"made"`  // directories, the outermost first
	Names []string `json:"names"` // facts
}

// deliveryTo returns what the target's installers have delivered to a directory.
func (t Target) deliveryTo(dir string) (*delivery, error) {
	d := &delivery{dir: dir, list: ".delivered-by-" + t.Driver.Dir()}
	return d, d.read()
}

// removeFacts removes what was delivered to a directory, "" for none.
func (t Target) removeFacts(dir string) error {
	if dir == "" {
		return nil
	}
	d, err := t.deliveryTo(dir)
	if err != nil || len(d.Names) == 0 && len(d.Made) == 0 {
		return err
	}
	for _, name := range slices.Clone(d.Names) {
		err = errors.Join(err, d.remove(name))
	}
	if err != nil {
		return err
	}
	if err := os.Remove(d.path(d.list)); err != nil {
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
	there, err := d.content(name, facts.MaxSize)
	ours := slices.Contains(d.Names, name)
	switch {
	case err == nil && bytes.Equal(there, content) && ours:
		return nil
	case !ours && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is there already, and not ours", d.path(name))
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
	const most = 1 << 20 // bytes
	text, err := d.content(d.list, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, d)
	}
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return fmt.Errorf("%s: %w; remove it", d.path(d.list), err)
	}
	return nil
}

// check says what no installer has delivered: it would be removed.
func (d *delivery) check() error {
	for _, name := range d.Names {
		if err := facts.Check(name, 0); err != nil {
			return fmt.Errorf("fact %q: %w", name, err)
		}
	}
	for _, made := range d.Made {
		if made != d.dir && made != filepath.Dir(d.dir) {
			return fmt.Errorf("directory %q is not that of the facts", made)
		}
	}
	return nil
}

// content reads a regular file of the directory. It follows no link, and does not
// wait for whoever writes to a fifo.
func (d *delivery) content(name string, most int64) ([]byte, error) {
	file, err := os.OpenFile(d.path(name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("it is not a regular file of at most %d bytes", most)
	}
	return io.ReadAll(io.LimitReader(file, most))
}

func (d *delivery) note() error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return d.replace(d.list, append(text, '\n'))
}

// make makes the directory, which all can read, and notes what it made.
func (d *delivery) make() error {
	before := len(d.Made)
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
	if len(d.Made) == before {
		return nil
	}
	return d.note()
}
