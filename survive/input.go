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
// given that: see given.go.

// OpenInput opens a directory as the input that Settings name. The error is fs.ErrNotExist if
// there is none, and says what to do about one that is not on a local file system.
func OpenInput(path string) (*os.File, error) { return openInput(path, mount.OpenLocal) }

func openInput(path string, open func(string) (*os.File, error)) (*os.File, error) {
	if path == "" {
		return nil, fs.ErrNotExist
	}
	directory, err := open(path)
	if errors.Is(err, mount.ErrNotLocal) {
		err = fmt.Errorf("%w; configure the path of a directory on a local one, without such a link", err)
	}
	return directory, err
}

// openInput opens the input as well, nil for none, and tells what the file system is given: which directory
// that is, in two lines, and the Config. It is compared with what was noted; "" if nothing could be found out.
func (n Node) openInput() (directory *os.File, identity string, err error) {
	open := mount.OpenLocal
	if n.InputFile {
		open = mount.OpenLocalInput
	}
	directory, err = openInput(n.Input, open)
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

// CheckInput tells why the input cannot be opened for a process that serves, which would start without
// it.
func (n Node) CheckInput() error {
	file, _, err := n.openInput()
	file.Close()
	return err
}

// giveInput opens the input for a process that is about to be started.
func (n Node) giveInput() (directory *os.File, identity string) {
	directory, identity, err := n.openInput()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.Log("it starts without the directory %s: %v", n.Input, err)
	}
	return directory, identity
}

// inputIdentity identifies the directory that is there. If that cannot be found out, it
// returns what was noted.
func (n Node) inputIdentity() string {
	directory, identity, err := n.openInput()
	directory.Close()
	if identity == "" {
		n.Log("look at the directory %s: %v", n.Input, err)
		return n.inputNote()
	}
	return identity
}

// inputNote is the identity of the input that the pair was given.
func (n Node) inputNote() string {
	noted, _ := os.ReadFile(n.path(noteOfInput))
	return string(noted)
}

// inputGiven tells whether the pair was given the directory that is there now.
func (n Node) inputGiven() bool { return n.inputNote() == n.inputIdentity() }

// KeepInput leaves the pair its input and its Config. It is for a configuration that cannot be read.
func (n *Node) KeepInput() {
	var rest string
	n.Input, rest, _ = strings.Cut(n.inputNote(), "\n")
	_, n.Config, _ = strings.Cut(rest, "\n")
}

// checkConfig returns an error if the Config cannot be handed to a process.
func (n Node) checkConfig() error {
	if len(n.Config) > maxConfig || strings.ContainsRune(n.Config, 0) {
		return fmt.Errorf("the driver's Settings have a Config of %d bytes; it can have %d, and none that is zero", len(n.Config), maxConfig)
	}
	return nil
}

const maxConfig = 64 << 10

// InputStale tells whether the pair was given another input than the one that is there, and
// whether the next call-out tries to change that.
func (n Node) InputStale() (stale, due bool) {
	identity := n.inputIdentity()
	stale = exists(n.RunDir) && n.inputNote() != identity
	return stale, stale && !n.failedUpgrade().inVain(identity)
}
