package node

import (
	"errors"
	"fmt"

	"example.com/pod-info-fuse/daemon"
)

// Maintain does what is due: it starts the daemon and heals volumes when both
// its processes have died, and lets this version take over from another. Where
// the driver has never mounted anything, it does nothing.
func (n Node) Maintain() error {
	if !exists(n.Volumes().Dir) {
		return nil
	}
	unlock, err := n.lock(exclusive)
	if err != nil {
		return err
	}
	defer unlock()
	if err := n.ensure(); err != nil {
		return err
	}
	_, err = n.upgrade()
	return err
}

// Restore heals what is dead, and says what it did.
func (n Node) Restore() ([]Healed, error) {
	if !exists(n.Volumes().Dir) {
		return nil, nil
	}
	unlock, err := n.lock(exclusive)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if serving, err := n.serving(); err != nil {
		return nil, err
	} else if !serving {
		if err := n.start(); err != nil {
			return nil, err
		}
	}
	return n.heal(), nil
}

// Upgrade lets this version take over from the one that serves, if that is
// another one.
func (n Node) Upgrade() (from string, err error) {
	if !exists(n.Volumes().Dir) {
		return "", nil
	}
	unlock, err := n.lock(exclusive)
	if err != nil {
		return "", err
	}
	defer unlock()
	return n.upgrade()
}

func (n Node) upgrade() (from string, err error) {
	if pids, err := n.daemon(); err != nil || !pids.Alive() {
		return "", err
	}
	report, err := daemon.Ask(n.socket())
	if err != nil {
		return "", fmt.Errorf("ask the daemon for its version: %w", err)
	}
	if report.Active.Version == n.Version && n.factsGiven() {
		return "", nil
	}
	log, err := n.log.Open()
	if err != nil {
		return "", fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	// As it is before the daemon opens it: a note that is too old has the daemon
	// started once more, one that is too new has it stay without.
	directory := n.factsIdentity()
	err = daemon.Upgrade(n.socket(), n.serveArgs(), n.Version, log, func(pid int) { _ = n.escape(pid) })
	if err != nil {
		err = fmt.Errorf("upgrade from version %s to %s: %w", report.Active.Version, n.Version, err)
		return report.Active.Version, errors.Join(err, n.noteFacts(directory+inVain))
	}
	return report.Active.Version, n.noteFacts(directory)
}
