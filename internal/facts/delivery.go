package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
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
	if len(wanted) > 0 {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the directory of facts: %w", err)
		}
	}
	l, err := openList(dir, installer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer l.root.Close()
	var problem error
	for _, name := range names {
		if slices.Contains(l.Names, name) {
			continue
		}
		if _, err := l.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			problem = errors.Join(problem, fmt.Errorf("deliver fact %q: it is in %s already, and not ours", name, dir))
			continue
		}
		l.Names = append(l.Names, name)
	}
	// The list first: an installer that is killed in between lists too much, which does no harm.
	if err := l.write(); err != nil {
		return err
	}
	for _, name := range slices.Clone(l.Names) {
		content, still := wanted[name]
		if still {
			err = l.put(name, content)
		} else if err = l.remove(name); err == nil {
			l.Names = slices.DeleteFunc(l.Names, func(n string) bool { return n == name })
		}
		if err != nil {
			problem = errors.Join(problem, fmt.Errorf("deliver fact %q: %w", name, err))
		}
	}
	return errors.Join(problem, l.write())
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

// Withdraw removes the facts that the installer of this name has delivered to a directory, and
// the directory if it is empty then. The directory "" is none.
func Withdraw(dir, installer string) error {
	err := Delivery{}.To(dir, installer)
	if err == nil {
		_ = unix.Rmdir(dir) // fails if other facts are there, or it is a link
	}
	return err
}

// list names the facts that an installer has delivered to a directory. Others can write to
// the directory, so the list that is read there may be forged: by the root, it leads to nothing
// outside.
type list struct {
	root  *os.Root
	file  string
	Names []string `json:"names"` // facts
}

// openList reads the list in a directory. The error is fs.ErrNotExist if there is no directory.
func openList(dir, installer string) (*list, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	l := &list{root: root, file: ".delivered-by-" + installer}
	text, err := l.content(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, l)
	}
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("%s/%s: %w; remove it", dir, l.file, err)
	}
	return l, nil
}

// write writes the list, or removes it when there is nothing to tell.
func (l *list) write() error {
	if len(l.Names) == 0 {
		return l.remove(l.file)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return l.put(l.file, append(text, '\n'))
}

// remove removes a file of the directory. One that is not there is not an error.
func (l *list) remove(name string) error {
	if err := l.root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// content reads a regular file of the directory. It does not wait for the writer of a fifo.
func (l *list) content(name string) ([]byte, error) {
	file, err := l.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	const most = 1 << 20 // bytes
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("it is not a regular file of at most %d bytes", most)
	}
	return io.ReadAll(io.LimitReader(file, most))
}

// put makes a file of the directory have a content, down to the disk and in one step, unless it
// has it already.
func (l *list) put(name string, content []byte) error {
	if there, err := l.content(name); err == nil && bytes.Equal(there, content) {
		return nil
	}
	hidden := ".new-" + name
	if err := l.remove(hidden); err != nil { // of one that was killed
		return err
	}
	file, err := l.root.OpenFile(hidden, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return l.root.Rename(hidden, name)
}
