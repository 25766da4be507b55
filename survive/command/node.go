package command

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/calllog"
)

// installation is an installation of the driver on this node.
type installation struct {
	survive.CallOuts
	log calllog.Log
}

// installation finds the one that a command is about. name is what --driver says,
// "" where it says nothing.
func (p Program) installation(name string) (i installation, err error) {
	settings, problem := p.settingsIn(filepath.Dir(calledAs()))
	id, err := p.driverName(name)
	if err != nil {
		return i, err
	}
	n := p.On(id, settings)
	if problem != nil {
		n.KeepInput()
	}
	return installation{survive.CallOuts{Node: n, ConfigError: problem, Check: p.Check}, calllog.New(p.Program, settings.Log)}, nil
}

// Node returns the installation that a command is about. name is what --driver says; see
// [Program.Flags].
func (p Program) Node(name string) (survive.Node, error) {
	i, err := p.installation(name)
	return i.Node, err
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
	if filepath.IsAbs(os.Args[0]) {
		return os.Args[0]
	}
	if path, err := os.Executable(); err == nil {
		return path
	}
	return os.Args[0]
}

// Flags returns a command's flags, and where --driver goes.
func (p Program) Flags(command string) (set *pflag.FlagSet, driver *string) {
	set = pflag.NewFlagSet(command, pflag.ContinueOnError)
	return set, set.String("driver", "", "the driver's `VENDOR/NAME`, when the binary is not in a directory vendor~name")
}

// Parse reads a command's flags; there must be nothing else.
func (p Program) Parse(set *pflag.FlagSet, args []string) error {
	err := set.Parse(args)
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("%s takes no argument %q", set.Name(), set.Arg(0))
	}
	return p.UsageError(err)
}
