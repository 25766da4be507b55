package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// operation is something that a reader does with the volume. It makes system
// calls directly: package os hides EINTR, and repeats the call.
type operation struct {
	name string
	do   func() error
}

// contents are what this process has to read in a volume's files.
func contents(volume string) map[string]string {
	self := strconv.Itoa(os.Getpid()) + "\n"
	host, err := os.Hostname()
	if err != nil {
		panic(err) // uname(2) cannot fail
	}
	return map[string]string{
		"pod.uid":      podOf(volume) + "\n",
		"pod.nodename": host + "\n",
		"pod":          self,
		"pid":          self,
	}
}

// fileOperations open, read and close every file.
func fileOperations(volume string) (all []operation) {
	for name := range contents(volume) {
		all = append(all, fileOperation(volume, name))
	}
	return all
}

func fileOperation(volume, name string) operation {
	path := filepath.Join(volume, name)
	content := contents(volume)[name]
	return operation{"open, read and close " + name, func() error {
		fd, err := open(path, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if name == "pod.uid" {
			// Or it is read from the page cache only, and the driver is never asked.
			unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
		}
		return expect(fd, content)
	}}
}

// openFileOperations read a file that was opened when the first process served.
func openFileOperations(volume string) []operation {
	path := filepath.Join(volume, "pod")
	content := contents(volume)["pod"]
	fd := -1
	return []operation{{"read the open pod", func() (err error) {
		if fd < 0 {
			if fd, err = open(path, 0); err != nil {
				return err
			}
		}
		return expect(fd, content)
	}}}
}

// directoryOperations do what ls -l and df do.
func directoryOperations(volume string) []operation {
	all := []operation{
		{"list the directory", func() error {
			names, err := list(volume)
			return compare(fmt.Sprint(names), "[node."+factName+" pid pod pod.nodename pod.uid]", err)
		}},
		{"read the link pid", func() error {
			var buffer [64]byte
			n, err := unix.Readlink(filepath.Join(volume, "pid"), buffer[:])
			return compare(string(buffer[:max(n, 0)]), "pod", err)
		}},
		{"statfs", func() error {
			var stat unix.Statfs_t
			err := unix.Statfs(volume, &stat)
			return compare(fmt.Sprintf("%#x", stat.Type), fmt.Sprintf("%#x", unix.FUSE_SUPER_MAGIC), err)
		}},
	}
	for name, content := range contents(volume) {
		path := filepath.Join(volume, name)
		all = append(all, operation{"stat " + name, func() error {
			var stat unix.Stat_t
			err := unix.Stat(path, &stat)
			return compare(strconv.FormatInt(stat.Size, 10), strconv.Itoa(len(content)), err)
		}})
	}
	return all
}

func open(path string, flags int) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	return fd, nil
}

// expect reads a file from its beginning to its end.
func expect(fd int, content string) error {
	var buffer [256]byte
	length := 0
	for {
		n, err := unix.Pread(fd, buffer[length:], int64(length))
		if err != nil {
			return fmt.Errorf("read at %d: %w", length, err)
		}
		if n == 0 {
			return compare(string(buffer[:length]), content, nil)
		}
		length += n
	}
}

// list lists a directory in portions of about two names, so that one listing
// is begun with one process and ended with another.
func list(directory string) (names []string, err error) {
	fd, err := open(directory, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var buffer [80]byte
	for {
		n, err := unix.ReadDirent(fd, buffer[:])
		if err != nil {
			return nil, fmt.Errorf("getdents: %w", err)
		}
		if n == 0 {
			slices.Sort(names)
			return names, nil
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
}

func compare(got, want string, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("got %q, want %q", got, want)
	}
	return err
}
