package main

import (
	"example.com/pod-info-fuse/calllog"
	"example.com/pod-info-fuse/node"
)

// uninstall removes the driver from the node, or with --watch as soon as its
// volumes are gone.
func uninstall(args []string) error {
	set, place := placeFlags("uninstall")
	force := set.Bool("force", false, "unmount volumes that are in use; pods that use them read errors from then on")
	watch := watchFlags(set)
	if err := parse(set, args); err != nil {
		return err
	}
	if err := watch.check(); err != nil {
		return err
	}
	binary, err := ownBinary()
	if err != nil {
		return err
	}
	defer binary.Close()
	target, why, err := place.enter()
	if err != nil {
		return err
	}
	remove := func() error { return target.Uninstall(binary, *force) }
	if !watch.on {
		return remove()
	}
	logLine("%s is to be removed (%s)", target.Dir(), why)
	removed := false
	look := func() error {
		if removed {
			return nil
		}
		err := remove()
		if removed = err == nil; removed {
			logLine("%s is removed", target.Dir())
		}
		return err
	}
	n := node.New(target.Driver, version, calllog.New("off"))
	return watch.run(look, func() string { return nodeMetrics(n) })
}
