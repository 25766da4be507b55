//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pair is the driver's daemon: the process that serves, and the one that
// takes over from it.
type pair struct{ active, standby int }

// pairLimit is how long the daemon may take to be two processes again. It takes
// milliseconds, but starting one over and over waits longer each time.
const pairLimit = 30 * time.Second

// pair waits until both processes are ready and none of them is one of before.
func (d *driver) pair(t *testing.T, before ...int) (p pair) {
	t.Helper()
	err := eventually(pairLimit, func() error {
		status, err := d.status()
		if err != nil {
			return err
		}
		p = pair{status.Daemon.Active.PID, status.Daemon.Standby.PID}
		if p.active == 0 || p.standby == 0 || slices.Contains(before, p.active) || slices.Contains(before, p.standby) {
			return fmt.Errorf("the daemon is %+v, which is not two processes other than %v", p, before)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// killPair kills both processes so that neither can take over: one that is
// stopped does not notice that the other dies.
func (d *driver) killPair(t *testing.T) {
	t.Helper()
	p := d.pair(t)
	signalDaemon(t, p.standby, syscall.SIGSTOP)
	// Only asked to stop, it may go on for a while.
	err := eventually(pairLimit, func() error {
		if now := processState(p.standby); now != "T" {
			return fmt.Errorf("the standby %d does not stop, its state is %q", p.standby, now)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kill(t, p.active)
	kill(t, p.standby)
}

// kill kills a process of the daemon and waits until it is gone.
func kill(t *testing.T, pid int) {
	t.Helper()
	signalDaemon(t, pid, syscall.SIGKILL)
	err := eventually(pairLimit, func() error {
		// What waits for somebody to ask how it ended is gone, too.
		if now := processState(pid); now != "" && now != "Z" && now != "X" {
			return fmt.Errorf("the daemon's process %d was killed and is there, its state is %s", pid, now)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// signalDaemon sends a signal to a process that the driver says is its own, and that
// is the node's by what the kernel says.
func signalDaemon(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if !slices.Contains(testNode.processes(), pid) {
		t.Fatalf("the driver says that its daemon is %d, which is no process of this node", pid)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("send %v to the daemon's process %d: %v", sig, pid, err)
	}
}

// processState is the letter that ps(1) shows for a process, none where there is
// no such process.
func processState(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name stands before it, and may have anything in it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}
