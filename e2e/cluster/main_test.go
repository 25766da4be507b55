//go:build cluster

// Package cluster runs the driver as an administrator of a cluster has it: its
// image, its manifest and its chart, on a real cluster of one node.
//
// The node is a machine of its own: name spaces for mounts, processes, network,
// host name and IPC. Its root directory is this machine's, with a layer above it in
// memory that takes what is written. So all paths and ports are the usual ones,
// nothing here is disturbed by it, and killing its first process removes all of it
// but its cgroups. The run fails if anything is left.
//
// The test binary runs three times, one below the other: outside of the machine, as
// its first process, and as the tests. They run on the machine, where /usr is this
// machine's and /run is empty, and start etcd, a control plane, containerd and a
// kubelet. Pods have a network, as the kubelet probes them; there are no services
// and no name server.
//
// With E2E_CLUSTER_KEEP, as `make cluster` has it, no test runs: the cluster stays until Ctrl-C.
//
// It needs root, /dev/fuse, and what `make e2e-cluster` builds. What is missing
// makes it fail; nothing is skipped.
package cluster

import (
	"fmt"
	"os"
	"testing"
)

// stage is the environment variable that tells where the test binary runs.
const stage = "E2E_CLUSTER_STAGE"

// testCluster is the cluster that every test uses.
var testCluster *cluster

func TestMain(m *testing.M) {
	switch os.Getenv(stage) {
	case "":
		os.Exit(runMachine())
	case "init":
		os.Exit(runInit())
	default:
		os.Exit(runTests(m))
	}
}

func runTests(m *testing.M) (code int) {
	c, err := startCluster()
	defer func() {
		if code != 0 {
			c.PrintLogs("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet")
		}
	}()
	if err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: starting the cluster: %v\n", err)
		return 1
	}
	testCluster = c
	if kept() {
		return c.keep()
	}
	return m.Run()
}
