package harness

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// A Pair is the driver's daemon: the process that serves, and the one that takes
// over from it.
type Pair struct{ Active, Standby int }

// pairLimit is how long the daemon may take to be two processes again. It takes
// milliseconds, but starting one over and over waits longer each time.
const pairLimit = time.Minute

// Pair waits until both processes are ready and none of them is one of before.
func (d *Driver) Pair(before ...int) (p Pair, err error) {
	err = Eventually(pairLimit, func() error {
		status, err := d.Status()
		if err != nil {
			return err
		}
		p = Pair{status.Daemon.Active.PID, status.Daemon.Standby.PID}
		if p.Active == 0 || p.Standby == 0 || slices.Contains(before, p.Active) || slices.Contains(before, p.Standby) {
			return fmt.Errorf("the daemon is %+v, which is not two processes other than %v", p, before)
		}
		return nil
	})
	return p, err
}

// Kill kills both processes so that neither can take over: one that is stopped
// does not notice that the other dies.
func (p Pair) Kill() error {
	if err := syscall.Kill(p.Standby, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the standby %d: %w", p.Standby, err)
	}
	// Only asked to stop, it may go on for a while.
	err := Eventually(pairLimit, func() error {
		if now := processState(p.Standby); now != "T" {
			return fmt.Errorf("the standby %d does not stop, its state is %q", p.Standby, now)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := Kill(p.Active); err != nil {
		return err
	}
	return Kill(p.Standby)
}
