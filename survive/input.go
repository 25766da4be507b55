package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
)

// A file system may read a directory beside the records, its input. An operator configures
// its path, which may lead to a file system that never answers; and nothing ends a process
// that waits for one. So it must be on a local one.
//
// A call-out opens it, and the processes of the pair inherit the descriptor. They never look
// up its path, so that a later mount over it, or on the way, cannot stop them. Landlock, too,
// knows the directory by its inode. If the path leads to another directory by now, the pair is
// given that.

// openInput opens the input as well, nil for none, and tells what the file system is given: which
// directory that is, in two lines, and the Config. It is compared with what was noted; "" if
// nothing could be found out.
func (n daemon) openInput() (directory *os.File, identity string, err error) {
	open := mount.OpenLocal
	if n.InputFile {
		open = mount.OpenLocalInput
	}
	directory, err = open(n.Input)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, n.Input + "\nis not there\n" + n.Config, err
	case errors.Is(err, mount.ErrNotLocal):
		return nil, n.Input + "\nis not local\n" + n.Config, err
	case err != nil:
		return nil, "", err
	}
	info, err := directory.Stat()
	if err != nil {
		directory.Close()
		return nil, "", err
	}
	stat := info.Sys().(*syscall.Stat_t)
	return directory, fmt.Sprintf("%s\n%d %d\n%s", n.Input, stat.Dev, stat.Ino, n.Config), nil
}

// inputIdentity identifies the directory that is there. If that cannot be found out, it
// returns what was noted.
func (n daemon) inputIdentity() string {
	directory, identity, err := n.openInput()
	directory.Close()
	if identity == "" {
		n.Log("look at the directory %s: %v", n.Input, err)
		return n.note(noteOfInput)
	}
	return identity
}

// checkConfig returns an error if the Config cannot be handed to a process.
func checkConfig(config string) error {
	if len(config) > maxConfig || strings.ContainsRune(config, 0) {
		return fmt.Errorf("the driver's Settings have a Config of %d bytes; it can have %d, and none that is zero", len(config), maxConfig)
	}
	return nil
}

const maxConfig = 64 << 10

func (n daemon) CheckInput() error {
	file, _, err := n.openInput()
	file.Close()
	return err
}

func (n daemon) NotedInput() (input, config string) {
	input, rest, _ := strings.Cut(n.note(noteOfInput), "\n")
	_, config, _ = strings.Cut(rest, "\n")
	return input, config
}
