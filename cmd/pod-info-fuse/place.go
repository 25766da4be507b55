package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/install"
)

// place is where flags say that the driver is to be.
type place struct {
	root, pluginDir string
	driver          *string
}

// placeFlags returns the flags that install and uninstall share.
func placeFlags(command string) (*pflag.FlagSet, *place) {
	set, driver := flags(command)
	p := &place{driver: driver}
	set.StringVar(&p.pluginDir, "plugin-dir", "", "the kubelet's plugin `DIR`; without it, what the running kubelet says, a directory that a distribution is known to use, or the default")
	set.StringVar(&p.root, "root", "", "`DIR` where a container has the host's root directory; other paths are as the host sees them")
	return set, p
}

// enter changes into the host's root directory, and returns the place in it, and
// why it is that one.
func (p *place) enter() (target install.Target, why string, err error) {
	if target.Driver, err = driverName(calledAs(), *p.driver); err != nil {
		return target, "", err
	}
	if p.root != "" {
		if err := unix.Chroot(p.root); err != nil {
			return target, "", fmt.Errorf("change the root directory to %s: %w; it needs CAP_SYS_CHROOT", p.root, err)
		}
		if err := os.Chdir("/"); err != nil {
			return target, "", err
		}
	}
	target.Contained = p.root != ""
	unix.Umask(0o022) // a plugin directory that has to be made is for all users, too
	if p.pluginDir == "" {
		target.PluginDir, why, err = install.FindPluginDir()
		return target, why, err
	}
	// The directory's driver is executed from another working directory.
	target.PluginDir, err = filepath.Abs(p.pluginDir)
	return target, "as --plugin-dir says", err
}

// ownBinary opens the binary of this process.
func ownBinary() (*os.File, error) { return os.Open("/proc/self/exe") }
