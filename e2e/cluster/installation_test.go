//go:build cluster

package cluster

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

const (
	driverName = "example.com/pod-info-fuse"
	// namespace is the installer's, and its DaemonSet's name as well.
	namespace = "pod-info-fuse"
	daemonSet = "daemonset/pod-info-fuse"
)

// installed is the driver where the installer has to put it.
var installed = &harness.Driver{Name: driverName, Dir: pluginDir + "/" + harness.Escaped(driverName)}

// versionOf asks a binary.
func versionOf(t *testing.T, binary string) string {
	t.Helper()
	out, err := exec.Command(binary, "version").Output()
	if err != nil {
		t.Fatalf("%s version: %v", binary, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "pod-info-fuse"))
}

// rolledOut waits until the installer is ready on the node, in the version that
// was asked for last.
func rolledOut(t *testing.T) {
	t.Helper()
	if _, err := testCluster.kubectl("-n", namespace, "rollout", "status", daemonSet, "--timeout=4m"); err != nil {
		log, _ := testCluster.kubectl("-n", namespace, "logs", daemonSet, "--tail=20")
		describe, _ := testCluster.kubectl("-n", namespace, "describe", "pods")
		t.Fatalf("%v\n%s\n%s", err, log, describe)
	}
}

// installer is the address of the installer's pod.
func installer(t *testing.T) string {
	t.Helper()
	ips := strings.Fields(kubectl(t, "-n", namespace, "get", "pods", "-o",
		`jsonpath={range .items[?(@.status.phase=="Running")]}{.status.podIP} {end}`))
	if len(ips) != 1 {
		t.Fatalf("the node has the installers %v, want one", ips)
	}
	return ips[0]
}

// checkUninstalled checks that the node is as it was before the driver came.
func checkUninstalled(t *testing.T, before nodeState) {
	t.Helper()
	err := harness.Eventually(startLimit, func() error {
		if changes := before.changes(lookAtNode()); len(changes) > 0 {
			return fmt.Errorf("the driver was uninstalled, and on the node it changed that:\n%s", strings.Join(changes, "\n"))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
