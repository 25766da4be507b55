package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// csiDir is the CSI plugin's directory. Where there is no FlexVolume, the driver is in it.
func (t Target) csiDir() string { return filepath.Join(t.KubeletDir, "plugins", t.Driver.CSI()) }

// CloseCSI removes the sockets that a CSI plugin of the driver has in the kubelet's directory,
// and its own directory there, once the driver is uninstalled. The plugin may be running: it has
// nothing to do any more, and when its registration socket goes, the kubelet forgets it
// (kubernetes v1.34, pkg/kubelet/pluginmanager/pluginwatcher/plugin_watcher.go).
func (t Target) CloseCSI() error {
	if t.KubeletDir == "" {
		return nil
	}
	dir := t.csiDir()
	var errs []error
	for _, socket := range []string{
		filepath.Join(t.KubeletDir, "plugins_registry", t.Driver.CSI()+"-reg.sock"),
		filepath.Join(dir, "csi.sock"),
	} {
		errs = append(errs, removeSocket(socket))
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, fmt.Errorf("remove the CSI plugin's directory %s: %w", dir, err))
	}
	return errors.Join(errs...)
}

// removeSocket removes a socket, and nothing else that has its name.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is not a socket but %s; it is left as it is", path, info.Mode().Type())
	}
	return os.Remove(path)
}
