package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A driver's state is a file in the run directory, as the counters are (package counters): root
// makes it, and each process of the pair inherits a descriptor, the last of those that are given,
// and maps it. It cannot grow beyond the limit of limitFiles, and nobody but root can cut it.

// mostState is in bytes, of the memory of the run directory's file system.
const mostState = 1 << 20

// openState opens the file for a process that is about to be started. One of another size is
// replaced by an empty one, which is not kept until that process serves.
func (n Node) openState() (file *os.File, fresh bool, err error) {
	path := n.path(stateFile)
	switch info, err := os.Lstat(path); {
	case err == nil && info.Size() == int64(n.State):
		file, err = os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
		return file, false, err
	case errors.Is(err, fs.ErrNotExist) && n.State == 0:
		return nil, false, nil
	}
	path = n.path(unkept(stateFile))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, false, err
	}
	// Its memory is allocated: a page that is not there when it is touched would end the process
	// with SIGBUS.
	if _, err := file.Write(make([]byte, n.State)); err != nil {
		file.Close()
		_ = os.Remove(path) // it would keep what there is of space
		return nil, false, err
	}
	return file, true, nil
}

// split splits what a process was given into the companion's files and the state's; nil: there is
// none.
func (d Driver) split(given []*os.File) (companion []*os.File, state *os.File) {
	last := len(given) - 1
	if d.State == 0 || last < 0 {
		return given, nil
	}
	return given[:last], given[last]
}

// mapState maps the driver's state, if it has one.
func (d Driver) mapState(file *os.File) (state []byte, err error) {
	switch {
	case d.State == 0:
		return nil, nil
	case file == nil:
		return nil, errors.New("map the driver's state: this process was started without it")
	}
	state, err = unix.Mmap(int(file.Fd()), 0, d.State, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		err = fmt.Errorf("map the driver's state: %w", err)
	}
	return state, err
}
