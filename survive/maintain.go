package survive

// Maintain starts the daemon and heals volumes when both its processes have died, and lets
// this version take over from another, unless that has just failed. Where the driver has
// never mounted anything, it does nothing.
func (n Node) Maintain() error {
	if used, err := n.used(); err != nil || !used {
		return err
	}
	unlock, err := n.lock(exclusive)
	if err == nil {
		err = n.ensure()
		if err == nil && !n.upgradeInVain() {
			_, err = n.upgrade()
		}
		unlock()
	}
	n.logHealed(n.healOthers())
	return err
}

// used tells whether the driver has ever mounted anything. Where there are no records,
// they may have been lost.
func (n Node) used() (bool, error) {
	if exists(n.Volumes().Dir) {
		return true, nil
	}
	count, err := n.Unrecorded()
	return count > 0, err
}

// Restore heals dead volumes, and those that have lost their record, and reports them.
func (n Node) Restore() ([]Healed, error) {
	if used, err := n.used(); err != nil || !used {
		return nil, err
	}
	unlock, err := n.lock(exclusive)
	if err != nil {
		return nil, err
	}
	healed, err := n.restore(true)
	unlock()
	if err != nil {
		return nil, err
	}
	_, _ = n.report(glance) // for its log
	return append(healed, n.healOthers()...), nil
}
