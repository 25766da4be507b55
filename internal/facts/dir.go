package facts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxSize is the largest fact, in bytes.
const MaxSize = 64 << 10

// Dir is a directory of facts.
type Dir struct {
	File     *os.File               // the directory, open; nil: there are no facts
	Reserved func(name string) bool // tells whether a name is taken; nil: none is
}

// Read returns a fact and its content, which is all of one version, unless the file is
// written to in place all the time.
func (d Dir) Read(name string) (f Fact, content []byte, err error) {
	const tries = 10
	for range tries {
		f, content, err = d.read(name)
		// EAGAIN: a rename on the way, which is soon over, or a lease, which may not be.
		if !errors.Is(err, ErrChanged) && !errors.Is(err, errDangling) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return f, content, err
}

// ErrChanged: a fact is written to in place.
var ErrChanged = errors.New("it changes while it is read; replace it by rename(2)")

// errDangling: a link in a ConfigMap dangles for a moment, when the directory that it led to
// is removed while it is followed.
var errDangling = errors.New("it is a link to nothing")

func (d Dir) read(name string) (Fact, []byte, error) {
	f, err := d.look(name)
	if err != nil {
		return f, nil, err
	}
	// Does not wait: not for the writer of a fifo, nor until somebody who has the file open with
	// a lease (fcntl(2), F_SETLEASE) gives that up.
	file, err := d.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return f, nil, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return f, nil, err
	}
	if f = factOf(name, before); !before.Mode().IsRegular() || f.Size > MaxSize {
		return f, nil, ErrChanged // it was replaced by what is none
	}
	content := make([]byte, f.Size+1)
	n, err := io.ReadFull(file, content)
	if err == nil || int64(n) != f.Size {
		return f, nil, ErrChanged
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return f, nil, err
	}
	after, err := file.Stat()
	if err == nil && written(before, after) {
		err = ErrChanged
	}
	return f, content[:n], err
}

// written tells whether a file was written to between two looks at it. When another one is
// renamed to its name, its ctime changes as well, but then it has no link any more.
func written(before, after fs.FileInfo) bool {
	b, a := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
	return versionOf(a) != versionOf(b) && (a.Nlink > 0 || a.Size != b.Size || a.Mtim != b.Mtim)
}

// look returns a fact as it is now. It does not open the file: to open a device can have
// effects.
func (d Dir) look(name string) (f Fact, err error) {
	if d.File == nil {
		return f, fs.ErrNotExist
	}
	if err := Check(name, 0); err != nil {
		return f, err
	}
	if d.Reserved != nil && d.Reserved(name) {
		return f, errReserved
	}
	file, err := d.open(name, unix.O_PATH)
	if err != nil {
		return f, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return f, err
	}
	if !info.Mode().IsRegular() {
		return f, errors.New("it is not a regular file")
	}
	if info.Mode()&0o004 == 0 {
		return f, errUnreadable
	}
	return factOf(name, info), Check(name, info.Size())
}

func factOf(name string, info fs.FileInfo) Fact {
	return Fact{name, hash([]byte(name)), info.Size(), info.ModTime(), versionOf(info.Sys().(*syscall.Stat_t))}
}

// open opens a file of the directory. It follows links, since ConfigMaps are delivered as
// links, but neither out of the directory nor to a mount in it: that file system may never
// answer. The error says in words why it cannot.
func (d Dir) open(name string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(int(d.File.Fd()), name, &unix.OpenHow{
		Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), name), nil
	case errors.Is(err, fs.ErrPermission):
		return nil, errUnreadable
	case errors.Is(err, unix.EXDEV):
		return nil, errors.New("it is a link that leads out of the directory, or something is mounted on it")
	case errors.Is(err, fs.ErrNotExist):
		var link unix.Stat_t
		if unix.Fstatat(int(d.File.Fd()), name, &link, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return nil, errDangling
		}
	}
	return nil, err
}

var errReserved = errors.New("the driver has a fact of that name itself")

var errUnreadable = errors.New("the daemon may not read it; make it readable for all")

// LeftOut is an entry of the directory that is not a fact.
type LeftOut struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Scan returns the facts that there are, by their names, and the entries that were left out.
// It ignores names that begin with a dot: they are for files that a rename(2) is about to put
// in their places.
func (d Dir) Scan() (all []Fact, out []LeftOut, err error) {
	names, err := d.names()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil // it was removed
	} else if err != nil {
		return nil, nil, fmt.Errorf("list the directory of facts: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		switch f, err := d.look(name); {
		case errors.Is(err, fs.ErrNotExist): // removed just now
		case err != nil:
			out = append(out, LeftOut{name, err.Error()})
		default:
			all = append(all, f)
		}
	}
	return all, out, nil
}

// Changed is when the directory was last changed: when an entry came, went, or was replaced. The
// kernel has set it, and nobody else can.
func (d Dir) Changed() time.Time {
	info, err := d.File.Stat()
	if err != nil {
		return time.Time{}
	}
	changed := info.Sys().(*syscall.Stat_t).Ctim
	return time.Unix(changed.Unix())
}

// MaxEntries is how many entries the directory can have. Each of them is looked at when a
// volume is listed, and meanwhile others who want facts wait.
const MaxEntries = 2000

func (d Dir) names() ([]string, error) {
	if d.File == nil {
		return nil, nil
	}
	// Opened anew: other processes share the position of the one that is open.
	fd, err := unix.Openat(int(d.File.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	directory := os.NewFile(uintptr(fd), d.File.Name())
	defer directory.Close()
	if info, err := directory.Stat(); err != nil {
		return nil, err
	} else if info.Mode()&0o005 != 0o005 {
		return nil, errors.New("the daemon may not list it; chmod 0755")
	}
	names, err := directory.Readdirnames(MaxEntries + 1)
	if len(names) > MaxEntries {
		return nil, fmt.Errorf("it has more than %d entries", MaxEntries)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(names)
	return names, err
}
