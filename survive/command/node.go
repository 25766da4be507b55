package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/selinux"
	"example.com/pod-info-fuse/survive"
)

// installation finds the installation that a command is about. name is what --driver says,
// "" where it says nothing.
func (p Program) installation(name string) (i survive.CallOuts, err error) {
	id, err := p.driverName(name)
	if err != nil {
		return i, err
	}
	return p.installationIn(filepath.Dir(calledAs()), id), nil
}

// installationIn is the installation of a driver that has its configuration in a directory.
func (p Program) installationIn(dir string, id flex.Name) survive.CallOuts {
	settings, problem := p.settingsIn(dir)
	n := p.NodeFor(id, settings)
	if problem != nil {
		n.Input, n.Config = n.Inside().NotedInput()
	}
	return survive.CallOuts{Node: n, ConfigError: problem, Check: p.Check}
}

// log is the log of an installation; syslog, if that is not known.
func (p Program) log(i survive.CallOuts) calllog.Log {
	return calllog.New(p.Program, i.Node.Settings.Log)
}

// driverName is the name of the driver that a command is about.
func (p Program) driverName(flag string) (id flex.Name, err error) {
	id, ok := flex.NameOf(calledAs())
	if !ok || flag != "" {
		if id, err = flex.ParseName(cmp.Or(flag, p.Name)); err != nil {
			return id, err
		}
	}
	return id, p.CheckName(id)
}

// calledAs is the path by which this process was executed. It keeps the names
// of the directories that links lead through, so that one binary can be linked
// into the directories of several drivers.
func calledAs() string {
	if path, err := os.Executable(); err == nil && !filepath.IsAbs(os.Args[0]) {
		return path
	}
	return os.Args[0]
}

// driverFlag declares --driver, which says what driver a command is about.
func (p Program) driverFlag(set *pflag.FlagSet) *string {
	return set.String("driver", "", "the driver's `VENDOR/NAME`, when the binary is not in a directory vendor~name")
}

// Node declares the flag --driver of a command. Once the flags are read, find returns the
// installation that the command is about.
func (p Program) Node(set *pflag.FlagSet) (find func() (survive.Node, error)) {
	all := p.finder(set)
	return func() (survive.Node, error) {
		i, err := all()
		return i.Node, err
	}
}

// finder is for commands that change the node, and refuses in a container. What only looks enters
// hostRoot, as status does.
func (p Program) finder(set *pflag.FlagSet) func() (survive.CallOuts, error) {
	driver := p.driverFlag(set)
	return func() (survive.CallOuts, error) {
		i, err := p.installation(*driver)
		if err == nil && isBelowHostRoot(i.Node) {
			err = fmt.Errorf("this container has the node's root directory at %s, and can only show the status; call %s on the node", hostRoot, set.Name())
		}
		return i, err
	}
}

// hostRoot is where a container has the node's root directory: the chart's, or one of kubectl
// debug node.
const hostRoot = "/host"

// isBelowHostRoot tells whether this process is in such a container: the driver's run directory is
// there, and there is none where it is on a node.
func isBelowHostRoot(n survive.Node) bool {
	_, err := os.Lstat(n.RunDir)
	_, below := os.Lstat(hostRoot + n.RunDir)
	return errors.Is(err, fs.ErrNotExist) && below == nil
}

// enterHostRoot returns the installation that a command is about once more, from within the node's
// root directory, which becomes that of this process.
func (p Program) enterHostRoot(n survive.Node) (survive.CallOuts, error) {
	if err := changeRoot(hostRoot); err != nil {
		return survive.CallOuts{}, err
	}
	dir, err := install.Find(n.Name)
	if err != nil {
		return survive.CallOuts{Node: n, ConfigError: err, Check: p.Check}, nil
	}
	return p.installationIn(dir, n.Name), nil
}

func changeRoot(dir string) error {
	if err := unix.Chroot(dir); err != nil {
		return fmt.Errorf("change the root directory to %s: %w; it needs CAP_SYS_CHROOT", dir, err)
	}
	return os.Chdir("/")
}

// settings are those that a configuration says, nil for none.
func (p Program) settings(configuration []byte) (survive.Settings, error) {
	if p.Configure == nil {
		return survive.Settings{Label: selinux.DefaultLabel}, nil
	}
	return p.Configure(configuration)
}

// settingsIn are those of the installation in a directory. With an error, all but mount goes
// on with them.
func (p Program) settingsIn(dir string) (survive.Settings, error) {
	path := filepath.Join(dir, install.ConfigFile)
	var configuration []byte
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && !info.Mode().IsRegular(): // a fifo would keep all call-outs waiting
		err = errors.New("it is not a regular file")
	case err == nil:
		configuration, err = os.ReadFile(path)
	}
	settings, invalid := p.settings(configuration)
	if err == nil {
		err = invalid
	}
	if err != nil {
		err = fmt.Errorf("configuration %s: %w", path, err)
	}
	return settings, err
}
