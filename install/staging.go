package install

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// stagingPattern matches the directories of drivers that are being installed or removed.
func (t Target) stagingPattern() string { return "." + t.Program + "-*" }

// hiddenIn is a path that the kubelet ignores, also in a directory that it watches, such as
// one that it found when it started. There, any other new name would have it look for a
// driver of the directory's name, for as long as it lives.
func hiddenIn(dir, name string) string { return filepath.Join(dir, "."+name) }

// sweep removes what killed installers have left.
func (t Target) sweep() error {
	left, err := filepath.Glob(filepath.Join(t.PluginDir, t.stagingPattern()))
	if err != nil {
		return err
	}
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// binaryMode lets everybody execute the binary, and nobody but root read it: the kernel lets no
// process of the daemon's user trace another one that executes it. See package confine.
const binaryMode fs.FileMode = 0o711

// stage writes a driver's files into a new directory, down to the disk.
func (t Target) stage(c Content) (dir string, err error) {
	dir, err = os.MkdirTemp(t.PluginDir, t.stagingPattern())
	if err != nil {
		return dir, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if err := write(hiddenIn(dir, t.Driver.File()), c.binary(), binaryMode); err != nil {
		return dir, err
	}
	if c.Config != nil {
		err = write(hiddenIn(dir, ConfigFile), bytes.NewReader(c.Config), 0o644)
	}
	return dir, errors.Join(err, syncDir(dir))
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

// installed tells whether the target has the content already, executable for all.
func (t Target) installed(c Content) (bool, error) {
	if info, err := os.Lstat(t.Dir()); err == nil && info.Mode().Perm() != 0o755 {
		return false, nil
	}
	same, err := sameFile(t.Binary(), c.binary(), binaryMode)
	if err != nil || !same || c.Config == nil {
		return same, err
	}
	return sameFile(t.config(), bytes.NewReader(c.Config), 0o644)
}

// sameFile tells whether a file has a content and a mode.
func sameFile(path string, content io.Reader, mode fs.FileMode) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Mode() != mode {
		return false, err
	}
	there, wanted := sha256.New(), sha256.New()
	_, errThere := io.Copy(there, file)
	_, err = io.Copy(wanted, content)
	return bytes.Equal(there.Sum(nil), wanted.Sum(nil)), errors.Join(err, errThere)
}
