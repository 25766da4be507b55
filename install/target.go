package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/filelock"
)

// ConfigFile is the name of a driver's configuration, in the driver's directory.
const ConfigFile = "config.json"

// Target is a driver's place in a plugin directory.
type Target struct {
	PluginDir string
	Driver    flex.Name
	// Program is the name of the binary's program, which begins its error messages and the
	// names of staging directories.
	Program string
	// Contained says that this process is in a container of the node, with the
	// host's root directory for its own.
	Contained bool

	// KubeletDir is the kubelet's own directory, where a CSI plugin of the driver has its
	// sockets, and may have the driver. Only Uninstall needs it. "": there is no such plugin.
	KubeletDir string

	// CheckConfig says why the driver would refuse a configuration, the content of its
	// file. nil: the driver refuses none.
	CheckConfig func(content []byte) error
	// Withdraw takes away what the driver has on the node beside its directory dir, before that is
	// removed. It reads the configuration in dir. nil: there is nothing.
	Withdraw func(dir string) error
}

// Find returns the directory where a driver is installed: that in the kubelet's plugin directory
// or, where it is for CSI only, that beside its plugin's socket, in the kubelet's own directory.
func Find(driver flex.Name) (dir string, err error) {
	pluginDir, _, err := FindPluginDir()
	if err != nil {
		return "", err
	}
	t := Target{PluginDir: pluginDir, Driver: driver, KubeletDir: DefaultKubeletDir}
	beside := Target{PluginDir: t.csiDir(), Driver: driver}
	if _, err := os.Lstat(t.Dir()); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(beside.Dir()); err == nil {
			return beside.Dir(), nil
		}
	}
	return t.Dir(), nil
}

// DefaultKubeletDir is the kubelet's own directory where it is not told another one.
const DefaultKubeletDir = "/var/lib/kubelet"

// Dir is the driver's directory.
func (t Target) Dir() string { return filepath.Join(t.PluginDir, t.Driver.Dir()) }

// Binary is the path that the kubelet executes.
func (t Target) Binary() string { return filepath.Join(t.Dir(), t.Driver.File()) }

func (t Target) config() string { return filepath.Join(t.Dir(), ConfigFile) }

// lockTimeout is how long an installer waits for another one, which may be ending the daemon:
// longer than uninstall takes, which may have it stop twice. Whoever may read the plugin directory
// can lock it.
var lockTimeout = 2*stopTimeout + time.Minute

// lock keeps other installers out of the plugin directory until unlock is called, or this process
// ends, and removes what killed ones have left. It refuses a driver's directory that is none: a
// link would lead to somebody else's files.
func (t Target) lock() (unlock func(), err error) {
	directory, err := os.Open(t.PluginDir)
	if err != nil {
		return nil, err
	}
	err = filelock.Within(time.Now().Add(lockTimeout), directory, filelock.Flock(unix.LOCK_EX))
	if err == nil {
		err = t.sweep()
	}
	if info, missing := os.Lstat(t.Dir()); err == nil && missing == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory; remove it, or choose another --plugin-dir or --driver", t.Dir())
	}
	if err != nil {
		directory.Close()
		return nil, err
	}
	return func() { directory.Close() }, nil
}
