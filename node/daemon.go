package node

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

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
			if err := errors.Join(kill(pids.Standby), kill(pids.Active)); err != nil {
				return err
			}
		}
	}
}

// kill kills a process that held a lock a moment ago, if there is one.
func kill(pid int) error {
	if pid == 0 {
		return nil
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill the daemon, process %d: %w", pid, err)
	}
	return nil
}
