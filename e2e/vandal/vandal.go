// Package vandal is what root of a hostile pod does to what its pod has in common with others, for
// the tests of pod-fuse.
package vandal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
)

// Done is the last line that Run prints.
const Done = "done"

// Run is root of a container with the default capabilities, and does to the server volume in a
// directory all that could harm another pod. It says what succeeded, a line each, and Done at the
// end; and it stays until its input ends. victim is a file of the host's, which the container does
// not see.
func Run(dir, victim string) {
	if above, err := os.Stat(filepath.Dir(dir)); err != nil || isOn(dir, above) {
		fmt.Printf("finds nothing mounted on %s: it does nothing\n", dir) // it may not be in a container
		fmt.Println(Done)
		return
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	did := func(what string, err error) {
		if err == nil {
			fmt.Println(what)
		}
	}
	names := append([]string{wire.Binary, wire.Socket, "."}, wire.Proxies...)
	for _, name := range names {
		if name != "." && name != wire.Socket {
			did("leased "+name, lease(at(name)))
			did("wrote "+name, overwrite(at(name)))
		}
		did("linked "+name, os.Link(at(name), at("link-to-"+name)))
		did("renamed "+name, os.Rename(at(name), at("was-"+name)))
		did("changed the mode of "+name, os.Chmod(at(name), 0))
		did("changed the owner of "+name, os.Chown(at(name), 1000, 1000))
		did("changed the times of "+name, os.Chtimes(at(name), time.Now(), time.Now()))
		if name != "." {
			did("removed "+name, os.Remove(at(name)))
		}
	}
	did("wrote a file", os.WriteFile(at("new"), []byte("new"), 0o755))
	did("made a directory", os.Mkdir(at("directory"), 0o755))
	did("made a FIFO", unix.Mkfifo(at("fifo"), 0o666))
	links := 0
	for links < 4_000_000 && os.Link(at(wire.Device), at(fmt.Sprintf("link-%d", links))) == nil {
		links++
	}
	if links > 0 {
		fmt.Printf("made %d links\n", links)
	}
	did("replaced the FIFO", errors.Join(os.Remove(at(wire.Device)), os.Symlink(victim, at(wire.Device))))
	// Its own, which nobody else has.
	if err := os.Chmod(at(wire.Device), 0); err != nil {
		fmt.Println(err)
	}
	fmt.Println(Done)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// isOn tells whether a directory is on the file system of its parent.
func isOn(dir string, above os.FileInfo) bool {
	info, err := os.Stat(dir)
	return err != nil || info.Sys().(*syscall.Stat_t).Dev == above.Sys().(*syscall.Stat_t).Dev
}

// lease takes a lease on a file, for which others' opens wait, as the user whose the file is. It
// stays until the process ends.
func lease(path string) error {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Setfsuid(int(stat.Uid)); err != nil {
		return err
	}
	defer unix.Setfsuid(0)
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		unix.Close(fd)
	}
	return err
}

// overwrite has a program of its own executed in the place of a file.
func overwrite(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("#!/bin/sh\necho evil\n")
	return errors.Join(err, file.Close())
}
