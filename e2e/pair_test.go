//go:build e2e

package e2e

import (
	"slices"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// pair waits until both processes are ready and none of them is one of before.
func (d *driver) pair(t *testing.T, before ...int) harness.Pair {
	t.Helper()
	p, err := d.Pair(before...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// killPair kills both processes so that neither can take over.
func (d *driver) killPair(t *testing.T) {
	t.Helper()
	p := d.pair(t)
	checkOwn(t, p.Active, p.Standby)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

// kill kills a process of the daemon and waits until it is gone.
func kill(t *testing.T, pid int) {
	t.Helper()
	checkOwn(t, pid)
	if err := harness.Kill(pid); err != nil {
		t.Fatal(err)
	}
}

// checkOwn checks that what the driver says are its processes are the node's by
// what the kernel says: they are to be killed.
func checkOwn(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if !slices.Contains(testNode.Processes(), pid) {
			t.Fatalf("the driver says that its daemon is %d, which is no process of this node", pid)
		}
	}
}
