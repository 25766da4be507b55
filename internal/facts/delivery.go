package facts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Delivery has the facts that an installer puts into the directory of facts. It keeps a list
// of them there, to remove them again: the rest of the directory is the operator's.
type Delivery struct {
	// From are directories whose files are facts, as those of a ConfigMap or of the
	// downward API. An empty file is no fact: the downward API makes one for a label
	// that does not exist.
	From  []*os.Root
	Fixed map[string]string // by their names
	// Reserved tells whether a name is taken; nil: none is.
	Reserved func(name string) bool
}

// To makes a directory have the facts, and no others that the installer of the same name
// delivered before. Each is replaced in one step. The directory "" is none: facts are
// switched off.
func (d Delivery) To(dir, installer string) error {
	wanted, err := d.wanted()
	names := slices.Sorted(maps.Keys(wanted))
	for _, name := range names {
		problem := Check(name, int64(len(wanted[name])))
		if d.Reserved != nil && d.Reserved(name) {
			problem = errReserved
		}
		if problem != nil {
			err = errors.Join(err, fmt.Errorf("fact %q: %w", name, problem))
		}
	}
	if err != nil {
		return fmt.Errorf("read the facts to deliver: %w", err)
	}
	if dir == "" {
		if len(wanted) > 0 {
			return errors.New("facts are switched off in the driver's configuration (factsDir), and cannot be delivered")
		}
		return nil
	}
	l, err := readList(dir, installer)
	if err != nil || len(wanted) == 0 && len(l.Names) == 0 {
		return err
	}
	if err := l.makeDir(); err != nil {
		return err
	}
	var problem error
	for _, name := range names {
		if err := l.put(name, wanted[name]); err != nil {
			problem = errors.Join(problem, fmt.Errorf("deliver fact %q: %w", name, err))
		}
	}
	for _, name := range slices.Clone(l.Names) {
		if _, still := wanted[name]; !still {
			problem = errors.Join(problem, l.remove(name))
		}
	}
	return problem
}

// wanted reads the facts to deliver.
func (d Delivery) wanted() (map[string][]byte, error) {
	wanted := map[string][]byte{}
	for _, root := range d.From {
		entries, err := fs.ReadDir(root.FS(), ".")
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			name := entry.Name()
			info, err := root.Stat(name)
			if strings.HasPrefix(name, ".") || err == nil && !info.Mode().IsRegular() {
				continue
			}
			content, err := root.ReadFile(name)
			if err != nil {
				return nil, err
			}
			if len(content) > 0 {
				wanted[name] = content
			}
		}
	}
	for name, value := range d.Fixed {
		if value != "" {
			wanted[name] = []byte(value + "\n")
		}
	}
	return wanted, nil
}

// Withdraw removes the facts that the installer of this name has delivered to a directory,
// and the directories that it made for them. The directory "" is none.
func Withdraw(dir, installer string) error {
	if dir == "" {
		return nil
	}
	l, err := readList(dir, installer)
	if err != nil || len(l.Names) == 0 && len(l.Made) == 0 {
		return err
	}
	for _, name := range slices.Clone(l.Names) {
		err = errors.Join(err, l.remove(name))
	}
	if err == nil {
		err = l.removeFile(l.file)
	}
	if err != nil {
		return err
	}
	for _, made := range slices.Backward(l.Made) {
		_ = os.Remove(made) // fails if other facts are there
	}
	return nil
}

// list names the facts that an installer has delivered to a directory. Others can write to
// the directory, so the list that is read there may be forged.
type list struct {
	dir, file string
	Made      []string `json:"made"`  // directories, the outermost first
	Names     []string `json:"names"` // facts
}

func readList(dir, installer string) (*list, error) {
	l := &list{dir: dir, file: ".delivered-by-" + installer}
	const most = 1 << 20 // bytes
	text, err := l.content(l.file, most)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = cmp.Or(json.Unmarshal(text, l), l.check())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it", l.path(l.file), err)
	}
	return l, nil
}

// check refuses a list of files or directories that no installer delivers: Withdraw would
// remove them.
func (l *list) check() error {
	for _, name := range l.Names {
		if err := Check(name, 0); err != nil {
			return fmt.Errorf("fact %q: %w", name, err)
		}
	}
	for _, made := range l.Made {
		if made != l.dir && made != filepath.Dir(l.dir) {
			return fmt.Errorf("directory %q is not that of the facts", made)
		}
	}
	return nil
}

// put writes a fact, unless it is there already. It leaves a file that the installer has not
// made.
func (l *list) put(name string, content []byte) error {
	there, err := l.content(name, MaxSize)
	ours := slices.Contains(l.Names, name)
	switch {
	case err == nil && ours && bytes.Equal(there, content):
		return nil
	case !ours && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is there already, and not ours", l.path(name))
	}
	if !ours { // the list first: an installer that is killed in between lists too much, which does no harm
		l.Names = append(l.Names, name)
		if err := l.write(); err != nil {
			return err
		}
	}
	return l.replace(name, content)
}

func (l *list) remove(name string) error {
	if err := l.removeFile(name); err != nil {
		return err
	}
	l.Names = slices.DeleteFunc(l.Names, func(n string) bool { return n == name })
	return l.write()
}

// makeDir makes the directory, which all can read, and its parent.
func (l *list) makeDir() error {
	var made []string
	for _, dir := range []string{filepath.Dir(l.dir), l.dir} {
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("make the directory of facts: %w", err)
		}
		made = append(made, dir)
		if err := os.Chmod(dir, 0o755); err != nil { // Mkdir subtracts the umask
			return err
		}
	}
	if made == nil {
		return nil
	}
	l.Made = append(l.Made, made...)
	return l.write()
}

// write writes the list, or removes it when there is nothing to tell.
func (l *list) write() error {
	if len(l.Names) == 0 && len(l.Made) == 0 {
		return l.removeFile(l.file)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return l.replace(l.file, append(text, '\n'))
}

// removeFile removes a file of the directory. One that is not there is not an error.
func (l *list) removeFile(name string) error {
	if err := os.Remove(l.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (l *list) path(name string) string { return filepath.Join(l.dir, name) }

// content reads a regular file of the directory. It follows no link, and does not wait for
// the writer of a fifo.
func (l *list) content(name string, most int64) ([]byte, error) {
	file, err := os.OpenFile(l.path(name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
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

// replace writes a file of the directory, down to the disk, in one step.
func (l *list) replace(name string, content []byte) error {
	if err := l.removeFile(".new-" + name); err != nil { // of one that was killed
		return err
	}
	hidden := l.path(".new-" + name)
	file, err := os.OpenFile(hidden, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(hidden, l.path(name))
}
