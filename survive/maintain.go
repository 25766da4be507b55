package survive

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

// maintain starts the daemon and heals volumes when both its processes have died, and those that
// have lost their record. Then it replaces the daemon, where that is due. Where the driver has
// never mounted anything, it does nothing.
func (n callOut) maintain(replace func() error) (healed []Healed, err error) {
	if used, err := n.used(); err != nil || !used {
		return nil, err
	}
	adopted, err := n.ensure(false)
	if errors.Is(err, errStopped) {
		return nil, nil
	}
	if err == nil {
		err = replace()
	}
	healed = n.heal(adopted)
	n.forgetLingering(math.MaxInt)
	return healed, err
}

// init maintains the node, and lets this version take over from another, unless that has just
// failed.
func (n callOut) init() error {
	healed, err := n.maintain(func() error {
		_, err := n.upgrade(func() bool { return !n.upgradeInVain() })
		return err
	})
	n.logHealed(healed)
	return err
}

// Restore maintains the node, and reports what it has healed.
func (n Node) Restore() ([]Healed, error) {
	c, given := n.begin(), []Healed(nil)
	healed, err := c.maintain(func() error {
		if from, err := c.giveAnew(); from != "" || err != nil {
			given = []Healed{{Path: "the daemon's link to its companion, or its input", Err: err}}
		}
		return nil
	})
	return append(healed, given...), err
}

// Acquire makes sure that the node mount is there and served, and keeps Stop away until release
// is called, which heals dead mounts in containers. It is for a driver's own call-outs: those of
// [CallOuts] use the node by themselves.
func (n Node) Acquire() (release func(), err error) {
	c := n.begin()
	if os.Geteuid() != 0 {
		return nil, errors.New("mounting needs root")
	}
	var adopted []Healed
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
			return func() { unlock(); c.logHealed(c.heal(adopted)) }, nil
		}
		unlock()
		if err == nil && ensured && time.Now().After(c.deadline) {
			err = fmt.Errorf("make sure that the daemon serves: %w", errNoTime)
		}
		if err != nil {
			return nil, err
		}
		more, err := c.ensure(true)
		adopted = append(adopted, more...)
		if err != nil {
			return nil, err
		}
		if _, err := c.giveAnew(); err != nil {
			c.Log("%v", err) // volumes work with what the pair has
		}
	}
}
