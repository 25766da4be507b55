//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

const (
	chart       = "../../deploy/chart/pod-info-fuse"
	chartBefore = "../../deploy/check/testdata/pod-info-fuse-0.1.1.tgz"
)

// helm runs Helm, as the cluster's administrator.
func helm(t *testing.T, args ...string) {
	t.Helper()
	if out, err := tryHelm(args...); err != nil {
		log, _ := testCluster.kubectl("-n", namespace, "logs", daemonSet, "--tail=20")
		t.Fatalf("helm %v: %v\n%s%s", args, err, out, log)
	}
}

func tryHelm(args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := testCluster.command(ctx, "../../bin/helm", append(args, "--namespace", namespace)...).CombinedOutput()
	return string(out), err
}

// The chart installs what the manifest does, and more when it is told to: a driver that is healed
// at once, and facts. What the chart of 0.1.1 installed is upgraded. It removes all that was
// installed.
func TestChart(t *testing.T) {
	before := settledNode(t)
	helm(t, "install", "pod-info-fuse", chartBefore, "--create-namespace",
		"--set", "image.tag="+versionOf(t, "../../bin/pod-info-fuse"),
		"--set", "healFromHost=true",
		"--set", "policies.validatingAdmissionPolicy=true",
		"--set", "config.log=off",
		"--set", "facts.rack=r12",
		"--set", "nodeNameFact=name",
		"--set", "factsFromLabels.app=app.kubernetes.io/name")
	t.Cleanup(func() {
		// By default, the DaemonSet is gone before its pods are.
		helm(t, "uninstall", "pod-info-fuse", "--wait", "--cascade=foreground", "--timeout=4m")
		left := kubectl(t, "get", "--all-namespaces", "--selector=app.kubernetes.io/instance=pod-info-fuse", "--output=name",
			"all,serviceaccounts,configmaps,resourcequotas,validatingadmissionpolicies,validatingadmissionpolicybindings")
		if left != "" {
			t.Errorf("the release was uninstalled, and the cluster has %s", left)
		}
		checkUninstalled(t, before)
	})
	// Not helm --wait, which does not wait for what may be unavailable.
	rolledOut(t)
	helm(t, "upgrade", "pod-info-fuse", chart, "--reuse-values",
		"--set", "commonLabels.team=mine,podLabels.only=pods,serviceAccount.name=mine,logFormat=json")
	rolledOut(t)
	if pods := kubectl(t, "-n", namespace, "get", "pods", "--selector=team=mine,only=pods", "-o", "jsonpath={.items[*].spec.serviceAccountName}"); pods != "mine" {
		t.Errorf("pods with the labels that were set have the service accounts %q, want that of one", pods)
	}
	if log := kubectl(t, "-n", namespace, "logs", daemonSet); !strings.HasPrefix(log, "{") {
		t.Errorf("the log is to be of JSON, and is %s", log)
	}
	t.Run("Files", func(t *testing.T) {
		runPod(t, newPod("chart", flexVolume(driverName), stays...)).checkFiles(t, infoDir)
	})
	t.Run("Facts", testFacts)
	t.Run("Loss", func(t *testing.T) { lose(t, time.Minute) })

	p := runPod(t, newPod("last", flexVolume(driverName), stays...))
	helm(t, "upgrade", "pod-info-fuse", chart, "--reuse-values", "--set", "uninstall=true")
	waitsFor(t, p)
	kubectl(t, "delete", "pod", p.name)
	rolledOut(t)
}

// waitsFor checks that the driver is not removed while a pod uses it.
func waitsFor(t *testing.T, p pod) {
	t.Helper()
	isInUse(t, p, "installer")
	p.checkFiles(t, infoDir)
}

// isInUse checks that a container of the installer's pod, which is to remove a driver, says that it
// cannot, because of a pod.
func isInUse(t *testing.T, p pod, container string) {
	t.Helper()
	uid := p.field(t, ".metadata.uid")
	err := harness.Eventually(startLimit, func() error {
		log, err := testCluster.kubectl("-n", namespace, "logs", daemonSet, "-c", container)
		if err == nil && !strings.Contains(log, uid) {
			err = fmt.Errorf("the driver is to be removed, and the pod %s, with the UID %s, is not in the log:\n%s", p.name, uid, log)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if ready := kubectl(t, "-n", namespace, "get", daemonSet, "-o", "jsonpath={.status.numberReady}"); ready != "0" {
		t.Errorf("the pod %s uses the driver, and %s nodes are said to be without it", p.name, ready)
	}
}
