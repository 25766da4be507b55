package proc

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Read reads a file below /proc that has less than so many bytes, into a buffer that may be empty.
// It is for looks at all processes: package os has ten times the work with each file.
func Read(path string, buffer []byte, most int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	for buffer = buffer[:0]; len(buffer) < most; {
		if len(buffer) == cap(buffer) {
			buffer = slices.Grow(buffer, 512)
		}
		n, err := unix.Read(fd, buffer[len(buffer):min(cap(buffer), most)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err} // ESRCH, EINVAL: it has ended
		case n == 0:
			return buffer, nil
		default:
			buffer = buffer[:len(buffer)+n]
		}
	}
	return nil, fmt.Errorf("%s has too much in it: %d bytes or more", path, most)
}

// PIDs lists all processes. With an error, some are missing.
func PIDs() (pids []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
