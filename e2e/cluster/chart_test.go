//go:build cluster

package cluster

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

const chart = "../../deploy/chart/pod-info-fuse"

// helm runs Helm, as the cluster's administrator.
func helm(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../bin/helm", append(args, "--namespace", namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+testCluster.kubeconfig("admin"),
		"HELM_CACHE_HOME="+testCluster.file("helm"), "HELM_CONFIG_HOME="+testCluster.file("helm"), "HELM_DATA_HOME="+testCluster.file("helm"))
	if out, err := cmd.CombinedOutput(); err != nil {
		log, _ := testCluster.kubectl("-n", namespace, "logs", daemonSet, "--tail=20")
		t.Fatalf("helm %v: %v\n%s%s", args, err, out, log)
	}
}

// The chart installs what the manifest does, and more when it is told to: a driver
// that is healed at once. It removes all that was installed.
func TestChart(t *testing.T) {
	before := lookAtNode()
	helm(t, "install", "pod-info-fuse", chart, "--create-namespace",
		"--set", "image.tag="+versionOf(t, "../../bin/pod-info-fuse"),
		"--set", "healFromHost=true",
		"--set", "policies.validatingAdmissionPolicy=true",
		"--set", "config.log=off")
	t.Cleanup(func() {
		helm(t, "uninstall", "pod-info-fuse", "--wait", "--timeout=2m")
		kubectl(t, "delete", "namespace", namespace, "--timeout=1m")
		checkUninstalled(t, before)
	})
	// Not helm --wait, which does not wait for what may be unavailable.
	rolledOut(t)
	t.Run("Files", func(t *testing.T) {
		runPod(t, newPod("chart", flexVolume(driverName), stays...)).checkFiles(t, infoDir)
	})
	t.Run("Policy", testPolicy)
	t.Run("Loss", func(t *testing.T) { lose(t, 30*time.Second) })

	helm(t, "upgrade", "pod-info-fuse", chart, "--reuse-values", "--set", "uninstall=true")
	rolledOut(t)
}
