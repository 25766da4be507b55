//go:build cluster

package cluster

import (
	"os"
	"testing"
)

const (
	policy     = "../../deploy/policies/validating-admission-policy.yaml"
	uninstalls = "../../deploy/uninstall.yaml"
)

// What the manifest installs goes through all that may happen to it, and leaves
// the node as it was.
func TestManifest(t *testing.T) {
	before := settledNode(t)
	t.Cleanup(func() {
		kubectl(t, "delete", "--ignore-not-found", "--timeout=4m", "-f", uninstalls, "-f", policy)
		checkUninstalled(t, before)
	})
	t.Run("README", testREADME)
	t.Run("PodFuse", testPodFuseByManifest)
	kubectl(t, "apply", "-f", policy)

	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"PersistentVolume", testPersistentVolume},
		{"Policy", testPolicy},
		{"Repair", testRepair},
		{"Loss", testLoss},
		{"Upgrade", testUpgrade},
	} {
		t.Run(test.name, test.run)
	}

	kubectl(t, "apply", "-f", uninstalls)
	rolledOut(t)
}

// The README's commands install the driver, and its last one reads.
func testREADME(t *testing.T) {
	read := runDocumented(t, documented(t, "README.md", "Install it in a cluster")...)
	p := pod{"test-pod", "default"}
	if want := p.field(t, ".metadata.uid") + "\n"; read != want {
		t.Errorf("the README's last command prints %q, want the pod's UID, %q", read, want)
	}
	p.checkFiles(t, infoDir)
	kubectl(t, "delete", "--timeout=4m", "-f", "../../deploy/examples/pod.yaml")
}

// The documented commands add pod-fuse, and remove it alone.
func testPodFuseByManifest(t *testing.T) {
	testDemo(t)
	runDocumented(t, documented(t, "docs/deployment.md", "Removing it alone")...)
	if _, err := os.Lstat(installedPodFuse.Dir); !os.IsNotExist(err) {
		t.Errorf("pod-fuse was uninstalled, and %s is there: %v", installedPodFuse.Dir, err)
	}
}
