package survive

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

// maintain starts the daemon and heals volumes when both its processes have died, and lets
// this version take over from another, unless that has just failed. Where the driver has
// never mounted anything, it does nothing.
func (n callOut) maintain() error {
	if used, err := n.used(); err != nil || !used {
		return err
	}
	err := n.ensure(false)
	if errors.Is(err, errStopped) {
		return nil
	}
	if err == nil {
		_, err = n.upgrade(func() bool { return !n.upgradeInVain() })
	}
	n.logHealed(n.healOthers())
	n.forgetLingering(math.MaxInt)
	return err
}

// Restore heals dead volumes, and those that have lost their record, and reports them.
func (n Node) Restore() ([]Healed, error) {
	c := n.begin()
	if used, err := c.used(); err != nil || !used {
		return nil, err
	}
	unlock, served, err := c.lockUsed()
	if errors.Is(err, errStopped) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	healed, err := c.restore(served, true)
	unlock()
	if err != nil {
		return nil, err
	}
	if from, err := c.giveAnew(); from != "" || err != nil {
		healed = append(healed, Healed{Path: "the daemon's link to its companion, or its input", Err: err})
	}
	healed = append(healed, c.healOthers()...)
	c.forgetLingering(math.MaxInt)
	return healed, nil
}

// Acquire makes sure that the node mount is there and served, and keeps Stop away until release
// is called, which heals dead mounts in containers. It is for a driver's own call-outs: those of
// [CallOuts] use the node by themselves.
func (n Node) Acquire() (release func(), err error) {
	c := n.begin()
	if os.Geteuid() != 0 {
		return nil, errors.New("mounting needs root")
	}
	for ensured := false; ; ensured = true {
		unlock, err := c.lock(shared)
		if err != nil {
			return nil, err
		}
		there, err := c.look()
		switch {
		case err == nil && there.seemsServed() && c.givenTried() && exists(c.Volumes().Dir) && !ensured:
			return unlock, nil
		case err == nil && ensured && there.device != 0:
			return func() { unlock(); c.logHealed(c.healOthers()) }, nil
		}
		unlock()
		if err == nil && ensured && time.Now().After(c.deadline) {
			err = fmt.Errorf("make sure that the daemon serves: %w", errNoTime)
		}
		if err != nil {
			return nil, err
		}
		if err := c.ensure(true); err != nil {
			return nil, err
		}
		if _, err := c.giveAnew(); err != nil {
			c.Log("%v", err) // volumes work with what the pair has
		}
	}
}
