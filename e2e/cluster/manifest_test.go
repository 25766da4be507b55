//go:build cluster

package cluster

import "testing"

const (
	manifest   = "../../deploy/pod-info-fuse.yaml"
	policy     = "../../deploy/policies/validating-admission-policy.yaml"
	uninstalls = "../../deploy/uninstall.yaml"
)

// What the manifest installs goes through all that may happen to it, and leaves
// the node as it was.
func TestManifest(t *testing.T) {
	before := settledNode(t)
	kubectl(t, "apply", "-f", manifest, "-f", policy)
	t.Cleanup(func() {
		kubectl(t, "delete", "--ignore-not-found", "--timeout=4m", "-f", uninstalls, "-f", policy)
		checkUninstalled(t, before)
	})
	rolledOut(t)

	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"Example", testExample},
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
