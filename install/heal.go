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

// heal has the driver heal dead volumes, and make lost records anew, by the call-out init. changed
// says that another version was installed: init lets it take over, as it gives the daemon another
// input.
func (k *Keeper) heal(changed bool) error {
	state, err := k.Node.MountState()
	if err != nil {
		return err
	}
	if time.Now().After(k.recordDue) {
		if k.lost, err = k.Node.Inside().Unrecorded(); err == nil {
			k.recordDue = time.Now().Add(recordInterval)
		}
	}
	before := k.dead
	k.dead = state == survive.MountDead
	delay := healDelay
	var wrong error // as long as it is not healed
	switch {
	case k.dead:
		wrong = errDead
	case changed, state == survive.MountOK && k.Due != nil && k.Due():
	case k.lost > 0:
		delay = recordDelay
		wrong = fmt.Errorf("%d volumes are mounted, but their records are lost; %s status names them, and "+
			"restore heals them, or says why not", k.lost, k.Program)
	default:
		k.tried = time.Time{}
		return err
	}
	switch {
	case changed:
	case k.dead && !before:
		return nil // a call-out may be starting the daemon
	case time.Since(k.tried) < delay:
		return wrong
	case k.dead:
		if died, err := k.Node.Inside().Died(); err != nil || !died {
			return err
		}
	}
	k.tried = time.Now()
	if k.callInit() != nil {
		return cmp.Or(k.touch(), wrong)
	}
	k.recordDue = time.Time{} // the next look tells what became of them
	if changed {
		// init succeeds also where the version does not take over.
		if now, err := k.Node.Status(); err == nil && now.FailedUpgrade != nil {
			k.Log("the version before serves on: %s", now.FailedUpgrade.Reason)
		}
	}
	if !k.dead {
		return wrong
	}
	k.Log("the daemon had died, and the driver was called to heal its volumes")
	return nil
}

var errDead = errors.New("the daemon has died, with its standby; its volumes are healed when the kubelet calls the driver")

// callInit calls the driver, as the kubelet would. Where this container may not, touch has the
// kubelet do it.
func (k *Keeper) callInit() error {
	binary := k.Target.Binary()
	return k.onHost(func() error { _, err := proc.Run(stopTimeout, binary, binary, "init"); return err })
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
