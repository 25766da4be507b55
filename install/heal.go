package install

import (
	"errors"
	"fmt"
	"os"
	"time"

	"example.com/pod-info-fuse/node"
)

// healPause is the time between two attempts that are in vain.
const healPause = 10 * time.Second

// heal has dead volumes healed. changed says that another version was installed,
// which takes over in the same way: that is what init does, as it gives the daemon a
// directory of facts that is a new one.
func (k *Keeper) heal(changed bool) error {
	state, err := k.Node.MountState()
	if err != nil {
		return err
	}
	before := k.dead
	k.dead = state == node.MountDead
	stale := state == node.MountOK && k.factsStale()
	switch {
	case changed:
	case !k.dead && !stale:
		k.tried = time.Time{}
		return nil
	case k.dead && !before:
		return nil // it may be that a call-out starts the daemon just now
	case time.Since(k.tried) < healPause && k.dead:
		return errDead
	case time.Since(k.tried) < healPause:
		return nil
	default:
		k.tried = time.Now()
	}
	if err := k.initOnHost(); err != nil {
		// We may not. The kubelet may, at its next volume operation.
		if err := k.touch(); err != nil || !k.dead {
			return err
		}
		return errDead
	}
	if k.dead {
		k.Log("the daemon had died, and the driver was called to heal its volumes")
	}
	return nil
}

// factsStale tells whether the daemon was given another directory of facts. Where the
// configuration cannot be read, nobody knows which one it should have.
func (k *Keeper) factsStale() bool {
	n := k.Node // a copy: who makes metrics reads the original
	var err error
	n.FactsDir, err = k.FactsDir()
	return err == nil && n.FactsStale()
}

var errDead = errors.New("the daemon has died, with its standby; its volumes are healed when the kubelet calls the driver")

// initOnHost calls the driver as the kubelet would.
func (k *Keeper) initOnHost() error {
	return k.onHost(func() error { _, err := run(stopTime, k.Target.Binary(), "init"); return err })
}

// touch makes the kubelet call init, at its next volume operation: it watches the
// directories of drivers (kubernetes v1.34, pkg/volume/flexvolume/probe.go).
func (k *Keeper) touch() error {
	now := time.Now()
	if err := os.Chtimes(k.Target.Binary(), now, now); err != nil {
		return fmt.Errorf("make the kubelet probe the driver: %w", err)
	}
	k.seen = signature{} // which that has changed: the next look reads the files
	return nil
}
