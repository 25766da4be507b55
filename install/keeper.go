package install

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"example.com/pod-info-fuse/node"
)

// Keeper keeps a driver in its place: its Look is for a Watch.
type Keeper struct {
	Target
	Binary *os.File
	// Config returns what config.json shall have in it; nil leaves what is there.
	Config func() ([]byte, error)
	Node   node.Node
	Facts  Facts
	Log    func(format string, args ...any)

	looked     bool
	wanted     string    // the configuration at the last look
	seen       signature // of the files when they were found to be right
	dead       bool      // the node mount, at the last look
	tried      time.Time // to heal, in vain so far
	repairs    atomic.Int64
	neighbours atomic.Pointer[map[string]string]
}

// Repairs counts the installations since the first look that no new configuration
// was the reason of.
func (k *Keeper) Repairs() int { return int(k.repairs.Load()) }

// Broken returns the neighbours that were broken at the last look, and why.
func (k *Keeper) Broken() map[string]string {
	if broken := k.neighbours.Load(); broken != nil {
		return *broken
	}
	return nil
}

// Look installs the driver if it is missing or altered, and has dead volumes
// healed, also where it could not be installed.
func (k *Keeper) Look() error {
	first := !k.looked
	changed, err := k.repair()
	k.looked = true
	err = errors.Join(err, k.lookAround())
	if err == nil && first && !changed {
		// The kubelet may have met a driver here that it could not execute.
		err = k.touch()
	}
	return errors.Join(err, k.Facts.Deliver(k.Target), k.heal(changed))
}

// repair installs the driver if it is not there as it should be. Files that have
// not changed since they were right are not read again.
func (k *Keeper) repair() (changed bool, err error) {
	c := Content{Binary: k.Binary}
	if c.Config, err = k.Config(); err != nil {
		return false, fmt.Errorf("read the configuration to install: %w", err)
	}
	asBefore := k.looked && k.wanted == string(c.Config)
	k.wanted = string(c.Config)
	now := signatureOf(k.Target, c.Config)
	if now == k.seen && now.complete() {
		return false, nil
	}
	if changed, err = k.Install(c); err != nil {
		return false, err
	}
	if changed {
		k.Log("installed %s", k.Target.Binary())
		if asBefore {
			k.repairs.Add(1)
		}
		now = signatureOf(k.Target, c.Config)
	}
	k.seen = now
	return changed, nil
}

// lookAround tells about neighbours that have broken since the last look.
func (k *Keeper) lookAround() error {
	now, err := k.Neighbours()
	if err != nil {
		return err
	}
	before := k.Broken()
	for name, why := range now {
		if before[name] != why {
			k.Log("the driver in %s is broken, and may keep an old kubelet from finding ours: %s", name, why)
		}
	}
	k.neighbours.Store(&now)
	return nil
}
