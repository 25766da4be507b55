// Package install puts the driver into a kubelet's plugin directory, keeps it
// there, and removes it.
//
//	PLUGINDIR/
//	    vendor~name/
//	        name              the driver
//	        config.json       its configuration, if there is one
//	    .PROGRAM-XXXX/        a driver that is being installed or removed
//
// The kubelet watches the directory, executes each driver that appears in it, and remembers
// which one failed (kubernetes v1.34, pkg/volume/flexvolume/probe.go). So it must never see a
// driver that is not complete: everything is made in a directory whose name begins with a
// dot, which the kubelet ignores, is on disk before it gets its name, and gets it by
// rename(2). An installer that is killed in between leaves such a directory, and the next
// installer removes it. An uninstalled driver is removed where it is: the kubelet does not
// forget it at a rename.
//
// In a container, the host's file system is below some directory, into which the
// process changes its root (see survive/command). From then on, paths are those of
// the host. Its mounts, however, are those of the container: processes of their own mount and
// unmount, in the namespaces of the host; see onHost.
package install

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Content is a driver's binary and its configuration.
type Content struct {
	Binary *os.File // is read from its beginning
	Config []byte   // of config.json; nil: what is there stays
}

// maxBinary is how much of a binary is read, in bytes.
const maxBinary = 1 << 30

func (c Content) binary() io.Reader { return io.NewSectionReader(c.Binary, 0, maxBinary) }

// Install makes the target have the content, and reports whether that changed anything. A reader
// of the target, the kubelet above all, sees the driver before or the driver after and nothing in
// between.
func (t Target) Install(c Content) (changed bool, err error) {
	if c.Config != nil && t.CheckConfig != nil {
		if err := t.CheckConfig(c.Config); err != nil {
			return false, fmt.Errorf("the configuration to install: %w", err)
		}
	}
	if err := os.MkdirAll(t.PluginDir, 0o755); err != nil {
		return false, fmt.Errorf("make the plugin directory: %w", err)
	}
	unlock, err := t.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	if same, err := t.installed(c); err != nil || same {
		return false, err
	}
	if err := t.install(c); err != nil {
		return false, fmt.Errorf("install %s: %w", t.Binary(), err)
	}
	return true, nil
}

func (t Target) install(c Content) error {
	staged, err := t.stage(c)
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged)
	if err := t.answers(hiddenIn(staged, t.Driver.File())); err != nil {
		return err
	}
	if _, err := os.Lstat(t.Dir()); errors.Is(err, fs.ErrNotExist) {
		dir := hiddenIn(staged, t.Driver.Dir())
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := t.place(staged, dir, c); err != nil {
			return err
		}
		return errors.Join(os.Rename(dir, t.Dir()), syncDir(t.PluginDir))
	}
	return t.place(staged, t.Dir(), c)
}

// place gives the staged files their names in a driver's directory.
func (t Target) place(staged, dir string, c Content) error {
	// The binary first: the one before may not know what is new in the file.
	names := []string{t.Driver.File()}
	if c.Config != nil {
		names = append(names, ConfigFile)
	}
	for _, name := range names {
		if err := os.Rename(hiddenIn(staged, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return errors.Join(os.Chmod(dir, 0o755), syncDir(dir)) // there was a umask
}
