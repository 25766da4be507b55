package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/selinux"
	"example.com/pod-info-fuse/survive"
)

// maxConfig is the largest configuration, in bytes.
const maxConfig = 64 << 10

// settings are those that a configuration says, nil for none.
func (p Program) settings(configuration []byte) (survive.Settings, error) {
	if p.Configure == nil {
		return survive.Settings{Label: selinux.DefaultLabel}, nil
	}
	if len(configuration) > maxConfig {
		settings, _ := p.Configure(nil)
		return settings, fmt.Errorf("it is larger than %d bytes", maxConfig)
	}
	return p.Configure(configuration)
}

// settingsIn are those of the installation in a directory. With an error, all but mount goes
// on with them.
func (p Program) settingsIn(dir string) (survive.Settings, error) {
	path := filepath.Join(dir, install.ConfigFile)
	configuration, err := readConfig(path)
	settings, invalid := p.settings(configuration)
	if err == nil {
		err = invalid
	}
	if err != nil {
		err = fmt.Errorf("configuration %s: %w", path, err)
	}
	return settings, err
}

// readConfig reads a configuration; nil: there is no file. It must be a regular file, or a
// link to one: any other would make every call-out wait for a writer.
func readConfig(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file; replace it")
	}
	return io.ReadAll(io.LimitReader(file, maxConfig+1))
}
