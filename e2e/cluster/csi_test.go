//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

const (
	manifestCSI   = "../../deploy/pod-info-fuse-csi.yaml"
	policyCSI     = "../../deploy/policies/validating-admission-policy-csi.yaml"
	uninstallsCSI = "../../deploy/uninstall-csi.yaml"
	// csiName is the driver's where pods ask for it as a CSI driver.
	csiName = "pod-info-fuse.example.com"
	// claimExample has a persistent volume, its claim, and a pod that watches; all but the pod are
	// named exampleClaim.
	claimExample = "persistent-volume-csi.yaml"
	exampleClaim = "pod-info-csi"
	// mayNot is the label of the namespaces whose pods the policy denies it.
	mayNot = csiName + "/volumes"
)

// Both doors of one DaemonSet, and all that may happen to it: no pod notices, and nothing is
// left of it.
func TestCSI(t *testing.T) {
	before := settledNode(t)
	kubectl(t, "apply", "-f", manifestCSI, "-f", policyCSI)
	t.Cleanup(func() {
		kubectl(t, "delete", "--ignore-not-found", "--timeout=4m", "-f", uninstallsCSI, "-f", policyCSI)
		checkUninstalled(t, before)
		checkNoCSIDriver(t, csiName)
	})
	newNamespace(t, "restricted")
	label(t, "restricted", podSecurity, "restricted")
	rolledOut(t)
	plugin := kubectl(t, "-n", namespace, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
	if warnings := kubectl(t, "-n", namespace, "get", "events", "--field-selector", "type=Warning,involvedObject.name="+plugin, "-o",
		"jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}"); strings.Contains(warnings, "Unhealthy") {
		t.Errorf("an installation begins with warnings:\n%s", warnings)
	}

	create(t, objectsIn(t, claimExample)[:2]...)

	t.Run("Users", testUsersOfCSI)
	t.Run("Example", testExampleOfCSI)
	t.Run("Policy", testPolicyOfCSI)
	t.Run("Restarts", testRestarts)
	t.Run("Loss", testLossOfBothDoors)
	t.Run("Republish", testRepublish)

	last := runPods(t,
		newPod("last-csi", csiVolume(), stays...),
		newPod("last-flexvolume", flexVolume(driverName), stays...),
		newPod("last-claim", claimVolume(exampleClaim), stays...))
	kubectl(t, "apply", "-f", uninstallsCSI)
	for _, p := range last {
		waitsFor(t, p)
	}
	for _, p := range last {
		kubectl(t, "delete", "pod", p.name, "--timeout=4m")
	}
	rolledOut(t)
}

// Without FlexVolume, the driver is in the kubelet's own directory, and the plugin alone calls
// it: for a new version, too. Where there was FlexVolume, its last pod goes on, and then the
// kubelet finds no driver any more.
func TestCSIAlone(t *testing.T) {
	before := settledNode(t)
	alone := &harness.Driver{Name: driverName, Dir: filepath.Join(kubeletDir, "plugins", csiName, harness.Escaped(driverName))}
	helm(t, "install", "pod-info-fuse", chartBefore, "--create-namespace",
		"--set", "image.tag="+versionOf(t, "../../bin/pod-info-fuse"),
		"--set", "csi.enabled=true",
		"--set", "config.log=off")
	t.Cleanup(func() {
		helm(t, "uninstall", "pod-info-fuse", "--wait", "--timeout=4m")
		checkUninstalled(t, before)
		checkNoCSIDriver(t, csiName)
	})
	rolledOut(t)
	both := runPods(t, newPod("flexvolume", flexVolume(driverName), stays...), newPod("before-claims", csiVolume(), stays...))
	old := both[0]
	upgrade := []string{"upgrade", "pod-info-fuse", chart, "--reuse-values", "--set", "flexVolume.enabled=false"}
	if output, err := tryHelm(upgrade...); err == nil || !strings.Contains(output, "spec.volumeLifecycleModes") || !strings.Contains(output, "immutable") {
		t.Errorf("an upgrade over the CSIDriver object of version 0.1.1: %v\n%s", err, output)
	}
	kubectl(t, "delete", "csidriver", csiName)
	helm(t, upgrade...) // makes it
	if modes := kubectl(t, "get", "csidriver", csiName, "-o", "jsonpath={.spec.volumeLifecycleModes}"); modes != `["Ephemeral","Persistent"]` {
		t.Errorf("after the upgrade, the lifecycle modes are %s", modes)
	}
	rolledOut(t)
	p := runPod(t, newPod("alone", csiVolume(), stays...))
	for _, p := range append(both, p) {
		p.checkFiles(t, infoDir)
	}
	kubectl(t, "delete", "pod", old.name, both[1].name, "--timeout=4m")
	err := harness.Eventually(startLimit, func() error {
		if _, err := os.Stat(installed.Dir); !os.IsNotExist(err) {
			return fmt.Errorf("there is no FlexVolume any more, and %s is there: %v", installed.Dir, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	p.checkFiles(t, infoDir)

	version := versionOf(t, nextBinary)
	helm(t, "upgrade", "pod-info-fuse", chart, "--reuse-values", "--set", "image.tag="+version)
	rolledOut(t)
	runPod(t, newPod("after-upgrade", csiVolume(), stays...)).checkFiles(t, infoDir)
	err = harness.Eventually(startLimit, func() error {
		status, err := alone.Status()
		if now := status.Daemon; err == nil && (now.Active.Version != version || now.Standby.Version != version) {
			err = fmt.Errorf("version %s was rolled out, and the daemon is %+v", version, now)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	p.checkFiles(t, infoDir)

	helm(t, "upgrade", "pod-info-fuse", chart, "--reuse-values", "--set", "uninstall=true")
	waitsFor(t, p)
	kubectl(t, "delete", "pod", p.name, "after-upgrade", "--timeout=4m")
	rolledOut(t)
}

// checkNoCSIDriver checks that neither the cluster nor the kubelet knows the driver.
func checkNoCSIDriver(t *testing.T, name string) {
	t.Helper()
	err := harness.Eventually(startLimit, func() error {
		drivers, err := testCluster.kubectl("get", "csidrivers,csinodes", "-o", "jsonpath={.items[*].metadata.name} {.items[*].spec.drivers[*].name}")
		if err == nil && strings.Contains(drivers, name) {
			err = fmt.Errorf("the driver was uninstalled, and among the cluster's CSI drivers and those of nodes are: %s", drivers)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Whoever the pod is, and whatever its namespace allows, it reads about itself; beside it, one
// with a FlexVolume does.
func testUsersOfCSI(t *testing.T) {
	create(t, newClaim("elsewhere", "restricted", csiName, object{"facts": "pod.name"})...)
	pods := runPods(t,
		newPod("root", csiVolume(), stays...),
		as(4321, newPod("user", csiVolume(), stays...)),
		in("restricted", restricted(newPod("restricted", csiVolume(), stays...))),
		in("restricted", restricted(newPod("claim-elsewhere", claimVolume("elsewhere"), stays...))),
		newPod("beside", flexVolume(driverName), stays...))
	for i, user := range []string{"0", "4321", "1000", "1000", "0"} {
		pods[i].checkFiles(t, infoDir)
		if got, err := pods[i].exec("id", "-u"); err != nil || strings.TrimSpace(got) != user {
			t.Errorf("the pod %s runs as %q, %v, want %s", pods[i].name, got, err, user)
		}
	}
	// One pair serves both doors.
	status, err := installed.Status()
	status.Volumes = slices.DeleteFunc(status.Volumes, func(v harness.Volume) bool {
		return v.State == "lingering" // of a pod before, until the next call-out
	})
	if err != nil || len(status.Volumes) != len(pods) {
		t.Errorf("%d pods have a volume, and the driver knows %+v, %v", len(pods), status.Volumes, err)
	}
	// The installer's container tells the same.
	shown := kubectl(t, "-n", namespace, "exec", daemonSet, "-c", "installer", "--", "/pod-info-fuse", "status")
	for _, p := range pods {
		if !strings.Contains(shown, p.namespace+"/"+p.name) || !strings.Contains(shown, fmt.Sprintf("process %d,", status.Daemon.Active.PID)) {
			t.Errorf("in the installer's container, status does not show %s/%s, or the active process of %+v:\n%s", p.namespace, p.name, status.Daemon, shown)
		}
	}
}

func testExampleOfCSI(t *testing.T) {
	label(t, "default", podSecurity, "restricted")
	runExample(t, "pod-csi.yaml")
}

// The policy says who may have the volume, and Pod Security that it is no privilege.
func testPolicyOfCSI(t *testing.T) {
	newNamespace(t, "elsewhere")
	label(t, "elsewhere", mayNot, "denied")
	for _, test := range []struct {
		name   string
		object object
		denied string // what the message has in it; empty: admitted
	}{
		{"in a namespace with the label", in("elsewhere", newPod("policy", csiVolume(), stays...)), "may not be used in this namespace"},
		{"as FlexVolume, there", in("elsewhere", newPod("policy", flexVolume(driverName), stays...)), "may not be used in this namespace"},
		{"of another driver, there", in("elsewhere", newPod("policy", object{"csi": object{"driver": "other.example.com"}}, stays...)), ""},
		{"in a restricted namespace", in("restricted", restricted(newPod("policy", csiVolume(), stays...))), ""},
		{"as FlexVolume, where Pod Security denies that", in("restricted", restricted(newPod("policy", flexVolume(driverName), stays...))), "restricted volume types"},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The API server may not have the policy at once.
			err := harness.Eventually(startLimit, func() error { return admission(test.object, test.denied) })
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// removeAndPutBack removes the DaemonSet, and puts it back. A pod that is deleted while the plugin
// is away cannot end, and ends when it is back.
func removeAndPutBack(t *testing.T) {
	t.Helper()
	p := runPod(t, newPod("away", csiVolume(), stays...))
	dir := filepath.Join(kubeletDir, "pods", p.field(t, ".metadata.uid"))
	removeDaemonSet(t)
	kubectl(t, "delete", "pod", p.name, "--wait=false")
	time.Sleep(4 * time.Second) // its container takes one to end
	if _, err := os.Lstat(dir); err != nil {
		t.Errorf("the pod was deleted without the plugin, which has to unmount: %v", err)
	}
	kubectl(t, "apply", "-f", manifestCSI)
	rolledOut(t)
	began := time.Now()
	kubectl(t, "wait", "--for=delete", "--timeout=3m", "pod/"+p.name)
	t.Logf("a pod that was deleted while the plugin was away ended %v after it was back", time.Since(began).Round(time.Second))
	err := harness.Eventually(startLimit, func() error {
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			return fmt.Errorf("the pod has ended, and left %s (%v)", dir, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Both processes of the pair are killed at once. The installer sees it, and the plugin, which
// may mount, calls the driver: all volumes are healed, in containers that run.
func testLossOfBothDoors(t *testing.T) {
	loseBothDoors(t,
		newPod("loss-csi", csiVolume(), stays...),
		newPod("loss-claim", claimVolume(exampleClaim), stays...),
		in("restricted", restricted(newPod("loss-restricted", csiVolume(), stays...))),
		newPod("loss-flexvolume", flexVolume(driverName), stays...))
}

// Without an installer, it is the kubelet that calls again, for the one CSI volume of the node,
// here a claim's: that heals those of both doors. What the plugin has started outlives it.
func testRepublish(t *testing.T) {
	kubectl(t, "-n", namespace, "patch", daemonSet, "--type=json", "-p", `[{"op": "remove", "path": "/spec/template/spec/containers/0"}]`)
	rolledOut(t)
	pods := loseBothDoors(t,
		newPod("republished", claimVolume(exampleClaim), stays...),
		newPod("republished-beside", flexVolume(driverName), stays...))
	was, err := installed.Pair()
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", manifestCSI)
	rolledOut(t)
	for _, p := range pods {
		p.checkFiles(t, infoDir)
	}
	if now, err := installed.Pair(); err != nil || now != was {
		t.Errorf("the plugin's pod was replaced; the daemon was %+v, and is %+v: %v", was, now, err)
	}
}

// loseBothDoors kills both processes under pods that run, and checks that these read again
// within two minutes.
func loseBothDoors(t *testing.T, definitions ...object) []pod {
	t.Helper()
	pods := runPods(t, definitions...)
	was, err := installed.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if err := was.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, p := range pods {
		p.reads(t, 2*time.Minute)
	}
	t.Logf("pods that run could read again %v after both processes were killed", time.Since(began).Round(time.Second))
	for _, p := range pods {
		p.checkFiles(t, infoDir)
		if restarts := p.field(t, ".status.containerStatuses[0].restartCount"); restarts != "0" {
			t.Errorf("the pod %s was restarted %s times", p.name, restarts)
		}
	}
	if now, err := installed.Pair(was.Active, was.Standby); err != nil {
		t.Errorf("the daemon was %+v, and is %+v: %v", was, now, err)
	}
	return pods
}
