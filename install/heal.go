package install

import (
	"errors"
	"fmt"
	"os"
	"time"

	"example.com/pod-info-fuse/node"
)

// healPause is the time between two attempts.
const healPause = 10 * time.Second

// heal has dead volumes healed. changed says that another version was installed,
// which takes over in the same way: that is what init does, as it gives the daemon a
// directory of facts that is a new one.
func (k *Keeper) heal(changed bool) error {
	state, err := k.Node.MountState()
	if err != nil {
		return err
	}
	stale := state == node.MountOK && k.Node.FactsStale()
	switch {
	case state != node.MountDead && !changed && !stale:
		return nil
	case changed:
	case time.Since(k.healed) < healPause && state == node.MountDead:
		return errDead
	case time.Since(k.healed) < healPause:
		return nil
	default:
		k.healed = time.Now()
	}
	if err := k.initOnHost(); err != nil {
		// We may not. The kubelet may, at its next volume operation.
		if err := k.touch(); err != nil || state != node.MountDead {
			return err
		}
		return errDead
	}
	if state == node.MountDead {
		k.Log("the daemon had died, and the driver was called to heal its volumes")
	}
	return nil
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
