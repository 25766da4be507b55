package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/calllog"
	"example.com/pod-info-fuse/config"
	"example.com/pod-info-fuse/driver"
	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/node"
)

// defaultDriver is the driver's name where nothing tells another.
const defaultDriver = "example.com/pod-info-fuse"

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

// setUp finds out which driver this is. name is what --driver says, "" when
// it says nothing.
func setUp(name string) (driver.Driver, calllog.Log, error) {
	binary := calledAs()
	settings, configErr := config.Load(filepath.Dir(binary))
	log := calllog.New(settings.Log)
	id, err := driverName(binary, name)
	if err != nil {
		return driver.Driver{}, log, err
	}
	n := node.New(id, version, log)
	n.Label = settings.Label()
	n.FactsDir = settings.FactsPath()
	if configErr != nil {
		n.KeepFacts()
	}
	return driver.Driver{Node: n, ConfigError: configErr, Facts: settings.Facts}, log, nil
}

func driverName(binary, name string) (flex.Name, error) {
	if id, ok := flex.NameOf(binary); ok && name == "" {
		return id, nil
	}
	if name == "" {
		name = defaultDriver
	}
	return flex.ParseName(name)
}

// flags returns a command's flags, and where --driver goes.
func flags(command string) (*pflag.FlagSet, *string) {
	set := pflag.NewFlagSet(command, pflag.ContinueOnError)
	return set, set.String("driver", "", "the driver's `VENDOR/NAME`, when the binary is not in a directory vendor~name")
}

// parse reads a command's flags; there must be nothing else.
func parse(set *pflag.FlagSet, args []string) error {
	err := set.Parse(args)
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("%s takes no argument %q", set.Name(), set.Arg(0))
	}
	return usageError(err)
}
