package install

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"example.com/pod-info-fuse/config"
)

// stagingPattern matches what is being installed or removed.
const stagingPattern = ".pod-info-fuse-*"

// staged is a driver's directory that has not got its name yet.
type staged struct {
	root string // to remove
	dir  string
}

func (s staged) remove() { os.RemoveAll(s.root) }

// sweep removes what installers have left that were killed.
func (t Target) sweep() error {
	left, err := filepath.Glob(filepath.Join(t.PluginDir, stagingPattern))
	if err != nil {
		return err
	}
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// stage writes a driver's directory with all in it, down to the disk.
func (t Target) stage(c Content) (s staged, err error) {
	s.root, err = os.MkdirTemp(t.PluginDir, stagingPattern)
	if err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			s.remove()
		}
	}()
	// Called in here, the driver takes itself for one that has nothing on the
	// node; under its own name, init would let it take over.
	s.dir = filepath.Join(s.root, "staged~"+t.Driver.File())
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return s, err
	}
	binary := io.NewSectionReader(c.Binary, 0, maxBinary)
	if err := write(filepath.Join(s.dir, t.Driver.File()), binary, 0o755); err != nil {
		return s, err
	}
	if c.Config != nil {
		err = write(filepath.Join(s.dir, config.FileName), reader(c.Config), 0o644)
	}
	// For MkdirTemp and Mkdir, there was a umask.
	return s, errors.Join(err, os.Chmod(s.dir, 0o755), syncDir(s.dir))
}

func write(path string, content io.Reader, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// syncDir makes the names in a directory last.
func syncDir(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
