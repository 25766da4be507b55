//go:build e2e

// Package e2e runs the driver under a real kubelet, with containerd and runc,
// and looks at it as a pod and as an administrator do.
//
// TestMain starts one node: a containerd of its own and a kubelet without an
// API server, which runs static pods. Everything that they write is below one
// temporary directory, but for the few places that node.outside knows. The node
// comes down at the end, and the run fails if a mount, a process or a directory
// of it or of the driver is left.
//
// Tests that kill a process of the driver's or the kubelet, or that look at all volumes of the
// driver, run one after the other. Those that only look at pods of their own are parallel: they run
// together, after the others.
//
// It needs root, /dev/fuse, bin/pod-info-fuse and what e2e/setup.sh installs. What
// is missing makes it fail; nothing is skipped.
//
// The driver is installed under test vendors (see driver_test.go), so that a
// driver that serves this machine's real pods is not disturbed. A kubelet that
// serves them is: it would share its device plugin socket, whose path is fixed.
// The tests refuse to start beside one.
package e2e

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// testNode is the node that every test runs its pods on.
var testNode *node

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	interrupted := interrupts()
	n, err := startNode()
	if n != nil {
		defer func() {
			if code != 0 {
				n.PrintLogs("containerd", "kubelet", driverLog)
			}
			if err := n.stop(); err != nil {
				fmt.Fprintf(os.Stderr, "FAIL: taking the node down:\n%v\n", err)
				code = 1
			}
		}()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: starting the node: %v\n", err)
		return 1
	}
	testNode = n
	go stopOnInterrupt(n, interrupted)
	return m.Run()
}

// interrupts is told that the person at the terminal gives up, also while the node
// starts. When go test was killed, nobody reads what the tests print, and the node
// has to come down all the same: who has asked for SIGPIPE does not die of it.
func interrupts() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	return interrupted
}

// stopOnInterrupt takes the node down: its processes are in process groups of
// their own and get no Ctrl-C.
func stopOnInterrupt(n *node, interrupted <-chan os.Signal) {
	<-interrupted
	if err := n.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}
