package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Of another program's file nothing is known but that it grows: each content is as long as
// the first, and not smaller than the one before. A clock's is.

// growing compares what one reader reads. An error leaves it as it was.
type growing struct{ last string }

func (g *growing) read(fd int) error {
	var buffer [4096]byte
	n, err := unix.Pread(fd, buffer[:], 0)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	now := string(buffer[:n])
	if n == 0 || g.last != "" && len(now) != len(g.last) || now < g.last {
		return fmt.Errorf("got %q after %q", now, g.last)
	}
	g.last = now
	return nil
}

// otherOperations open, read and close the file.
func otherOperations(volume, name string) []operation {
	path, content := filepath.Join(volume, name), new(growing)
	return []operation{{"open, read and close " + name, func() error {
		fd, err := open(path, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return content.read(fd)
	}}}
}

// otherOpenOperations read a file that was opened when the first process served.
func otherOpenOperations(volume, name string) []operation {
	path, content, fd := filepath.Join(volume, name), new(growing), -1
	return []operation{{"read the open " + name, func() (err error) {
		if fd < 0 {
			if fd, err = open(path, 0); err != nil {
				return err
			}
		}
		return content.read(fd)
	}}}
}

// otherListOperations do what ls -l and df do.
func otherListOperations(volume, name string) []operation {
	path := filepath.Join(volume, name)
	return []operation{
		{"list the directory", func() error {
			names, err := list(volume)
			if err == nil && !slices.Contains(names, name) {
				err = fmt.Errorf("%q lacks %q", names, name)
			}
			return err
		}},
		{"stat " + name, func() error {
			var stat unix.Stat_t
			return unix.Stat(path, &stat)
		}},
		{"statfs", func() error {
			var stat unix.Statfs_t
			return unix.Statfs(volume, &stat)
		}},
	}
}
