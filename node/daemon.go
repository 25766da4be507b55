package node

import (
	"errors"
	"fmt"
	"os"
	"time"

	"example.com/pod-info-fuse/daemon"
)

// daemon finds the processes of the daemon's pair.
func (n Node) daemon() (daemon.PIDs, error) {
	pids, err := daemon.Find(n.path("daemon.lock"))
	if err != nil {
		return daemon.PIDs{}, fmt.Errorf("find the daemon: %w", err)
	}
	return pids, nil
}

// end ends the daemon, if there is one, and waits until it is gone.
func (n Node) end() error {
	pids, err := n.daemon()
	if err != nil || !pids.Alive() {
		return err
	}
	_ = daemon.Stop(n.socket()) // one that does not listen is killed below
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		pids, err := n.daemon()
		if err != nil || !pids.Alive() {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the daemon does not end: processes %d and %d", pids.Active, pids.Standby)
		}
		if time.Until(deadline) < patience-time.Second {
			// The standby first, or it would take over.
			if err := errors.Join(n.kill(standby), n.kill(active)); err != nil {
				return err
			}
		}
	}
}

func active(pids daemon.PIDs) int  { return pids.Active }
func standby(pids daemon.PIDs) int { return pids.Standby }

// kill kills the process that holds a lock, and no other that got its PID
// meanwhile.
func (n Node) kill(role func(daemon.PIDs) int) error {
	pids, err := n.daemon()
	if err != nil || role(pids) == 0 {
		return err
	}
	// Where the kernel has pidfds, this holds on to the process.
	process, err := os.FindProcess(role(pids))
	if err != nil {
		return err
	}
	defer process.Release()
	if now, err := n.daemon(); err != nil || role(now) != role(pids) {
		return err // what we hold on to may be another process
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the daemon, process %d: %w", role(pids), err)
	}
	return nil
}
