package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"example.com/pod-info-fuse/config"
)

// Install makes the target have the content, and reports whether that changed
// anything. A reader of the target, the kubelet above all, sees the driver before
// or the driver after and nothing in between. The version before is kept for
// Rollback.
func (t Target) Install(c Content) (changed bool, err error) {
	if c.Config != nil {
		if err := config.Check(c.Config); err != nil {
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
	if err := errors.Join(t.sweep(), t.check()); err != nil {
		return false, err
	}
	if same, err := t.installed(c); err != nil || same {
		return false, err
	}
	factsDir, unknown := t.FactsDir()
	if err := t.install(c); err != nil {
		return false, fmt.Errorf("install %s: %w", t.Binary(), err)
	}
	// Nobody would find them there, once the configuration names another directory.
	if now, err := t.FactsDir(); err == nil && unknown == nil && now != factsDir {
		if err := t.removeFacts(factsDir); err != nil {
			return true, fmt.Errorf("remove the facts that were delivered: %w", err)
		}
	}
	return true, nil
}

func (t Target) install(c Content) error {
	s, err := t.stage(c)
	if err != nil {
		return err
	}
	defer s.remove()
	if err := answers(filepath.Join(s.dir, t.Driver.File())); err != nil {
		return err
	}
	if _, err := os.Lstat(t.Dir()); errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(s.dir, t.Dir())
		return errors.Join(err, syncDir(t.PluginDir))
	}
	return t.replace(s, c)
}

// replace puts files into a driver's directory that is there already.
func (t Target) replace(s staged, c Content) error {
	if err := t.keep(s); err != nil {
		return fmt.Errorf("keep the version before: %w", err)
	}
	// The binary first: the one before may not know what is new in the file.
	if err := os.Rename(filepath.Join(s.dir, t.Driver.File()), t.Binary()); err != nil {
		return err
	}
	if c.Config != nil {
		if err := os.Rename(filepath.Join(s.dir, config.FileName), t.config()); err != nil {
			return err
		}
	}
	return errors.Join(os.Chmod(t.Dir(), 0o755), syncDir(t.Dir()))
}
