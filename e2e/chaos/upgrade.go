package main

import (
	"context"
	"fmt"
)

// upgrade installs the other binary and the first one in turn.
func (t *trial) upgrade(ctx context.Context) error {
	now := t.first
	for i := range t.rounds {
		next, err := t.upgradeTo(ctx, now, []string{t.other, t.binary}[i%2])
		if err != nil {
			return fmt.Errorf("upgrade %d: %w", i+1, err)
		}
		now = next
	}
	t.report.note("upgrades        %d", t.rounds)
	return nil
}

// upgradeTo installs a binary. The call-out init makes the driver notice, as the
// kubelet would after a change in the plugin's directory.
func (t *trial) upgradeTo(ctx context.Context, now status, binary string) (status, error) {
	t.readers.replacements.beginOrEnd()
	defer t.readers.replacements.beginOrEnd()
	if err := t.driver.replace(binary); err != nil {
		return now, fmt.Errorf("install %s: %w", binary, err)
	}
	if err := t.driver.callOut("init"); err != nil {
		return now, err
	}
	next, err := t.awaitUpgrade(ctx, now)
	if err != nil {
		return now, fmt.Errorf("upgrade to %s: %w", binary, err)
	}
	t.report.tookOver(now, next, "planned")
	return next, nil
}

// awaitUpgrade waits until both processes are of the installed version and
// those of the version before are gone.
func (t *trial) awaitUpgrade(ctx context.Context, before status) (status, error) {
	var now status
	err := await(ctx, recoveryTimeout, func() (err error) {
		if now, err = t.driver.status(); err != nil {
			return err
		}
		// status speaks of the version of the binary that was executed for it.
		if now.Version == before.Version {
			return fmt.Errorf("both binaries are of version %s", now.Version)
		}
		if err := now.complete(); err != nil {
			return err
		}
		if a, s := now.Daemon.Active.Version, now.Daemon.Standby.Version; a != now.Version || s != now.Version {
			return fmt.Errorf("the active is of version %s, the standby of %s, want %s", a, s, now.Version)
		}
		return nil
	})
	if err != nil {
		return now, err
	}
	for _, r := range []role{active, standby} {
		if err := t.awaitEnd(ctx, before.process(r)); err != nil {
			return now, fmt.Errorf("the %s before: %w", r, err)
		}
	}
	return now, nil
}
