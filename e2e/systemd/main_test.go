//go:build systemd

// Package systemd tests that volumes survive the restart of a kubelet that takes
// everything in its cgroup with it.
//
// Machines are containers of systemd-nspawn, with name spaces and cgroups of
// their own; the kernel is shared. With systemd, the tests are of
// systemd's idea of killing a service. Without, the first process only waits,
// and the tests kill what is in a cgroup themselves. Each is done on cgroup v1
// and on v2: the former is name=systemd only, since nspawn hands nothing else over.
//
// run.sh makes what is needed, and runs the tests.
package systemd

import (
	"fmt"
	"os"
	"testing"
)

// On a machine, the test's own binary is the program that reads a volume.
const readerVariable = "E2E_SYSTEMD_READ"

func TestMain(m *testing.M) {
	if volume := os.Getenv(readerVariable); volume != "" {
		os.Exit(readMain(volume))
	}
	for _, need := range []string{debian, driverBinary, zipBinary} {
		if _, err := os.Stat(need); err != nil {
			fmt.Fprintf(os.Stderr, "%v; make build, then e2e/systemd/run.sh\n", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// What run.sh and the Makefile make.
const (
	debian       = "../bin/debian"
	driverBinary = "../../bin/pod-info-fuse"
)

// A layout is how a machine has its cgroups, as nspawn is told in
// SYSTEMD_NSPAWN_UNIFIED_HIERARCHY.
type layout string

const (
	v1 layout = "0"
	v2 layout = "1"
)

// onEach runs a test on both layouts.
func onEach(t *testing.T, test func(t *testing.T, layout layout)) {
	t.Run("cgroup v1", func(t *testing.T) { test(t, v1) })
	t.Run("cgroup v2", func(t *testing.T) { test(t, v2) })
}
