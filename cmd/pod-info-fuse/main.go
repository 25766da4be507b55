// The runtime would size GOMAXPROCS by the cgroup's CPU limit, and keep cgroup
// files open to follow it. A call-out lives too briefly for that, and the daemon
// leaves the cgroup that it was started in.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command pod-info-fuse is a FlexVolume driver: the kubelet executes it to
// mount volumes whose files tell a pod about itself and its node. Package flex
// describes the call-outs, package fs the files, package survive the processes that
// serve them, and package command the commands that every driver has.
package main

import (
	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/internal/config"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
	"example.com/pod-info-fuse/survive/volume"
)

// version is replaced by the linker; see the Makefile.
var version = "0.0.0-dev"

func main() {
	program().Main()
}

// program describes the driver.
func program() command.Program {
	var settings config.Config
	return command.Program{
		Driver: survive.Driver{
			Program:     "pod-info-fuse",
			Version:     version,
			FileSystem:  func(site survive.Site) survive.FileSystem { return fs.New(site) },
			Reads:       fs.Reads,
			CheckRecord: fs.CheckRecord,
		},
		Name:  "example.com/pod-info-fuse",
		About: "pod-info-fuse is a FlexVolume driver that tells pods about themselves.",
		Configure: func(configuration []byte) (s survive.Settings, err error) {
			settings, err = config.Parse(configuration)
			return survive.Settings{Log: settings.Log, Label: settings.Label(), Input: settings.FactsPath()}, err
		},
		Check: func(options flex.Options, r *volume.Record) error {
			return ask(options, settings.Facts, r)
		},
		Status:   func(n survive.Node) []command.Section { return []command.Section{seLinuxSection(n), factsSection(n)} },
		Deliver:  deliver,
		Withdraw: withdraw,
	}
}
