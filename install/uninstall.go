package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/pod-info-fuse/internal/proc"
)

// stopTimeout is how long a daemon may take to end, with its volumes.
const stopTimeout = 2 * time.Minute

// Uninstall ends the daemon and removes the driver from the node. Volumes that are
// in use prevent it, and the error names them; force unmounts them. binary is one of this
// version, which the host executes.
//
// With a KubeletDir, it also removes the driver from beside the CSI plugin's socket, and the door
// for CSI. A plugin has to serve until the last of its volumes is gone: so its sockets go last.
func (t Target) Uninstall(binary *os.File, force bool) error {
	if err := t.uninstall(binary, force); err != nil {
		return err
	}
	beside := t
	beside.PluginDir = t.csiDir()
	if _, err := os.Lstat(beside.Dir()); t.KubeletDir != "" && err == nil {
		if err := beside.uninstall(binary, force); err != nil {
			return err
		}
	}
	return t.CloseCSI()
}

func (t Target) uninstall(binary *os.File, force bool) error {
	stop := func() error { return t.stop(binary, force) }
	unlock, err := t.lock()
	if errors.Is(err, fs.ErrNotExist) {
		return stop() // no plugin directory, no driver in it
	} else if err != nil {
		return err
	}
	defer unlock()
	if err := stop(); err != nil {
		return err
	}
	if _, err := os.Lstat(t.Dir()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if t.Withdraw != nil {
		if err := t.Withdraw(t.Dir()); err != nil {
			return err
		}
	}
	return t.remove(stop)
}

// remove takes the driver's directory from the kubelet and removes it. again is called once
// nobody can call the driver any more: a mount may have come before.
//
// The kubelet forgets a driver when its executable is removed where it is, or its
// directory, and not when either is renamed: it then tries the missing executable at every
// look-up of a plugin, for as long as it lives. Any other change in the directory has it look
// at the driver again (kubernetes v1.34, pkg/volume/flexvolume/probe.go, handleWatchEvent).
// So all other files go first, and after the executable nothing but the directory.
func (t Target) remove(again func() error) error {
	root, err := os.MkdirTemp(t.PluginDir, t.stagingPattern())
	if err != nil {
		return err
	}
	taken, err := t.takeFiles(root)
	if err == nil {
		err = again()
	}
	if err == nil {
		err = os.Remove(t.Dir())
	}
	if err != nil {
		// The executable was the last to go: once it is there, the driver is whole.
		for _, name := range taken {
			err = errors.Join(err, os.Rename(hiddenIn(root, name), filepath.Join(t.Dir(), name)))
		}
		return errors.Join(err, os.Remove(root))
	}
	return errors.Join(os.RemoveAll(root), syncDir(t.PluginDir))
}

// takeFiles moves all files of the driver's directory to another one, the executable
// last, and returns the names of those that it has moved in that order.
func (t Target) takeFiles(to string) (taken []string, err error) {
	entries, err := os.ReadDir(t.Dir())
	if err != nil {
		return nil, err
	}
	executable := t.Driver.File()
	for _, entry := range entries {
		if name := entry.Name(); name != executable {
			if err := os.Rename(filepath.Join(t.Dir(), name), hiddenIn(to, name)); err != nil {
				return taken, err
			}
			taken = append(taken, name)
		}
	}
	if err := os.Link(t.Binary(), hiddenIn(to, executable)); errors.Is(err, fs.ErrNotExist) {
		return taken, nil // an uninstaller was killed here
	} else if err != nil {
		return taken, err
	}
	return append(taken, executable), os.Remove(t.Binary())
}

// stop executes the command stop on the host.
func (t Target) stop(binary *os.File, force bool) error {
	path := fmt.Sprintf("/proc/self/fd/%d", binary.Fd()) // it may be in a container's file system
	argv := []string{path, "stop", "--driver", t.Driver.String()}
	if force {
		argv = append(argv, "--force")
	}
	return t.onHost(func() error {
		output, err := proc.Run(stopTimeout, path, argv...)
		if said := strings.TrimSpace(string(output)); err != nil && said != "" {
			return errors.New(strings.TrimPrefix(said, t.Program+": ")) // it says what to do
		}
		return err
	})
}
