package main

import (
	"errors"
	"fmt"
	"os"

	"example.com/pod-info-fuse/calllog"
	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/node"
)

// installCommand installs this binary as the driver, and with --watch keeps it
// installed.
func installCommand(args []string) error {
	set, place := placeFlags("install")
	configFile := set.String("config", "", "`FILE` to install as config.json; without it, the one that is there stays")
	rollback := set.Bool("rollback", false, "install the version before the present one")
	delivery := factsFlags(set)
	watch := watchFlags(set)
	if err := parse(set, args); err != nil {
		return err
	}
	if err := watch.check(); err != nil {
		return err
	}
	if *rollback && (watch.on || *configFile != "" || delivery.given()) {
		return usageError(errors.New("--rollback goes with neither --watch nor --config nor facts"))
	}
	// Opened now: below another root directory, their paths are others.
	binary, err := ownBinary()
	if err != nil {
		return err
	}
	defer binary.Close()
	configuration, err := openSource(*configFile)
	if err != nil {
		return err
	}
	facts, err := delivery.open()
	if err != nil {
		return err
	}
	target, why, err := place.enter()
	if err != nil {
		return err
	}
	switch {
	case *rollback:
		if err := target.Rollback(); err != nil {
			return err
		}
		fmt.Printf("%s is the version before again (%s)\n", target.Binary(), why)
		return nil
	case watch.on:
		logLine("version %s is to be %s (%s)", version, target.Binary(), why)
		keeper := &install.Keeper{
			Target: target, Binary: binary, Config: configuration.read, Log: logLine, Facts: facts,
			Node: node.New(target.Driver, version, calllog.New("off")),
		}
		return watch.run(keeper.Look, func() string { return keeperMetrics(keeper) })
	}
	if err := installOnce(target, why, binary, configuration); err != nil {
		return err
	}
	return facts.Deliver(target)
}

func installOnce(target install.Target, why string, binary *os.File, configuration source) error {
	content := install.Content{Binary: binary}
	var err error
	if content.Config, err = configuration.read(); err != nil {
		return err
	}
	changed, err := target.Install(content)
	if err != nil {
		return err
	}
	what := "installed as"
	if !changed {
		what = "is installed already as"
	}
	fmt.Printf("version %s %s %s (%s)\n", version, what, target.Binary(), why)
	return nil
}
