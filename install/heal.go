package install

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive"
)

const (
	healDelay      = 10 * time.Second // between two attempts to heal that fail
	recordInterval = 5 * time.Second  // between two looks for lost records, which read the node's mounts
	recordDelay    = time.Minute      // between two attempts to restore them that fail
)

// heal has the driver heal dead volumes, by the call-out init. changed says that another
// version was installed: init lets it take over, as it gives the daemon another input.
func (k *Keeper) heal(changed bool) error {
	state, err := k.Node.MountState()
	if err != nil {
		return err
	}
	before := k.dead
	k.dead = state == survive.MountDead
	var wrong error // as long as it is not healed
	if k.dead {
		wrong = errDead
	}
	stale := state == survive.MountOK && k.Due != nil && k.Due()
	switch {
	case changed:
	case !k.dead && !stale:
		k.tried = time.Time{}
		return nil
	case k.dead && !before:
		return nil // a call-out may be starting the daemon
	case time.Since(k.tried) < healDelay:
		return wrong
	case k.dead:
		if died, err := k.Node.Inside().Died(); err != nil || !died {
			return err
		}
		fallthrough
	default:
		k.tried = time.Now()
	}
	if err := k.call("init"); err != nil {
		return cmp.Or(k.touch(), wrong)
	}
	if k.dead {
		k.Log("the daemon had died, and the driver was called to heal its volumes")
	}
	return nil
}

var errDead = errors.New("the daemon has died, with its standby; its volumes are healed when the kubelet calls the driver")

// call calls the driver, as the kubelet would. Where this container may not, touch has the
// kubelet do it.
func (k *Keeper) call(verb string) error {
	binary := k.Target.Binary()
	return k.onHost(func() error { _, err := proc.Run(stopTimeout, binary, binary, verb); return err })
}

// touch makes the kubelet call init, at its next volume operation: it watches the
// directories of drivers (kubernetes v1.34, pkg/volume/flexvolume/probe.go).
func (k *Keeper) touch() error {
	now := time.Now()
	if err := os.Chtimes(k.Target.Binary(), now, now); err != nil {
		return fmt.Errorf("make the kubelet probe the driver: %w", err)
	}
	k.seen = "" // the time of change is another one: the next look reads the files
	return nil
}

// record has the driver make lost records anew, and heal their volumes.
func (k *Keeper) record() error {
	if time.Now().Before(k.recordDue) {
		return k.lost
	}
	before := k.lost
	count, err := k.Node.Inside().Unrecorded()
	k.recordDue = time.Now().Add(recordInterval)
	if k.lost = err; err != nil || count == 0 {
		return err
	}
	k.lost = fmt.Errorf("%d volumes are mounted, but their records are lost; %s status names them, and "+
		"restore heals them, or logs why not", count, k.Program)
	k.recordDue = time.Time{} // the next look tells what became of it
	if before != nil {
		k.recordDue = time.Now().Add(recordDelay)
	}
	if err := k.call("restore"); err != nil {
		k.Log("%v", err)
		return k.touch()
	}
	return k.lost
}
