package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stopTime is how long a daemon may take to end, with its volumes.
const stopTime = 2 * time.Minute

// Uninstall ends the daemon and removes the driver from the node, with the facts that
// were delivered. Volumes that are in use prevent it, and the error names them; force
// unmounts them. binary is one of this version, which the host executes.
func (t Target) Uninstall(binary *os.File, force bool) error {
	unlock, err := t.lock()
	if errors.Is(err, fs.ErrNotExist) {
		return t.stop(binary, force) // no plugin directory, no driver in it
	} else if err != nil {
		return err
	}
	defer unlock()
	if err := errors.Join(t.sweep(), t.check()); err != nil {
		return err
	}
	if err := t.stop(binary, force); err != nil {
		return err
	}
	if _, err := os.Lstat(t.Dir()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dir, err := t.FactsDir()
	if err == nil {
		err = t.removeFacts(dir)
	}
	if err != nil {
		return fmt.Errorf("remove the facts that were delivered: %w", err)
	}
	return t.remove(func() error { return t.stop(binary, force) })
}

// remove takes the driver's directory from the kubelet and removes it. again is
// called in between: before, a mount may have come.
func (t Target) remove(again func() error) error {
	root, err := os.MkdirTemp(t.PluginDir, stagingPattern)
	if err != nil {
		return err
	}
	hidden := filepath.Join(root, t.Driver.Dir())
	if err := os.Rename(t.Dir(), hidden); err != nil {
		return errors.Join(err, os.Remove(root))
	}
	if err := again(); err != nil {
		return errors.Join(err, os.Rename(hidden, t.Dir()), os.Remove(root))
	}
	return errors.Join(os.RemoveAll(root), syncDir(t.PluginDir))
}

// stop executes the command stop on the host.
func (t Target) stop(binary *os.File, force bool) error {
	args := []string{"stop", "--driver", t.Driver.String()}
	if force {
		args = append(args, "--force")
	}
	return t.onHost(func() error {
		// By its descriptor, because it may be in a container's file system.
		output, err := run(stopTime, fmt.Sprintf("/proc/self/fd/%d", binary.Fd()), args...)
		if said := strings.TrimSpace(string(output)); err != nil && said != "" {
			return errors.New(strings.TrimPrefix(said, "pod-info-fuse: ")) // it says what to do
		}
		return err
	})
}
