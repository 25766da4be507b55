//go:build !broken

package main

import (
	"example.com/pod-info-fuse/node"
)

// serve is a process of the daemon's pair. The driver starts it; see package
// daemon.
func serve(args []string) error {
	set, name := flags("serve")
	facts := set.String("facts", "", "directory of the operator's facts")
	confined := set.Bool("confined", false, "inherits a confinement")
	if err := parse(set, args); err != nil {
		return err
	}
	driver, err := driverName(calledAs(), *name)
	if err != nil {
		return err
	}
	return node.Serve(driver, version, *facts, *confined)
}
