package facts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxSize is the largest fact, in bytes.
const MaxSize = 64 << 10

// Dir is a directory of facts. One that does not exist has none.
type Dir struct {
	Path     string
	Reserved func(name string) bool // tells whether a name is taken
}

// Read returns a fact and its content, which is all of one version, unless somebody
// writes to the file in place all the time.
func (d Dir) Read(name string) (f Fact, content []byte, err error) {
	const tries = 10
	for range tries {
		f, err = with(d, func(root *os.Root) (Fact, error) {
			file, f, err := d.open(root, name)
			if err != nil {
				return f, err
			}
			defer file.Close()
			content, err = read(file, f)
			return f, err
		})
		if !errors.Is(err, ErrChanged) && !errors.Is(err, errDangling) {
			return f, content, err
		}
	}
	return f, content, err
}

// ErrChanged: a fact is written to in place.
var ErrChanged = errors.New("it changes while it is read; replace it by rename(2)")

// errDangling: for a moment, that is what a link in a ConfigMap is, when the directory
// that it led to is removed while it is followed.
var errDangling = errors.New("it is a link to nothing")

func read(file *os.File, f Fact) ([]byte, error) {
	content := make([]byte, f.Size+1)
	n, err := io.ReadFull(file, content)
	switch {
	case err == nil:
		return nil, ErrChanged // it is longer by now
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	}
	after, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if int64(n) != f.Size || versionOf(after.Sys().(*syscall.Stat_t)) != f.version {
		return nil, ErrChanged
	}
	return content[:n], nil
}

// with opens the directory. Links that lead out of it are not followed, others
// are: that is how ConfigMaps are delivered.
func with(d Dir, f func(*os.Root) (Fact, error)) (Fact, error) {
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return Fact{}, err
	}
	defer root.Close()
	return f(root)
}

// open opens a fact.
func (d Dir) open(root *os.Root, name string) (*os.File, Fact, error) {
	if err := checkName(name); err != nil {
		return nil, Fact{}, err
	}
	if d.Reserved != nil && d.Reserved(name) {
		return nil, Fact{}, errors.New("the driver has a fact of that name itself")
	}
	// To open a device can have effects, so what it is must be known before.
	info, err := root.Stat(name)
	if err != nil {
		return nil, Fact{}, reason(root, name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, Fact{}, fmt.Errorf("it is %s, not a regular file", kindOf(info.Mode()))
	}
	if err := Check(name, info.Size()); err != nil {
		return nil, Fact{}, err
	}
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, Fact{}, reason(root, name, err)
	}
	opened, err := file.Stat()
	if err == nil && (!opened.Mode().IsRegular() || opened.Size() > MaxSize) {
		err = ErrChanged
	}
	if err != nil {
		file.Close()
		return nil, Fact{}, err
	}
	return file, Fact{name, opened.Size(), opened.ModTime(), versionOf(opened.Sys().(*syscall.Stat_t))}, nil
}

// reason says in words why a file could not be opened.
func reason(root *os.Root, name string, err error) error {
	info, missing := root.Lstat(name)
	switch {
	case missing != nil:
		return missing
	case errors.Is(err, fs.ErrPermission):
		return errors.New("the daemon may not read it; make it readable for all")
	case errors.Is(err, fs.ErrNotExist):
		return errDangling
	case info.Mode().Type() == fs.ModeSymlink:
		return errors.New("it is a link that leads out of the directory")
	}
	return err
}

// kindOf says in words what is not a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeNamedPipe != 0:
		return "a fifo"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "of another kind"
}
