//go:build cluster

package cluster

import (
	"fmt"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// lookalike reads as a key that only the kubelet may set to those who fold the
// case of letters: its s is U+017F. The API server lets it pass.
const lookalike = "kuberneteſ.io/pod.uid"

// The policy denies pods and persistent volumes other drivers and misleading
// options, and nothing else.
func testPolicy(t *testing.T) {
	const other = "other.example.com/driver"
	newNamespace(t, "restricted")
	label(t, "restricted", podSecurity, "restricted")
	label(t, "default", podSecurity, "baseline")
	elsewhere := in("restricted", newPod("policy", flexVolume(driverName), stays...))
	for _, test := range []struct {
		name   string
		object object
		denied string // what the message has in it; empty: admitted
	}{
		{"another driver", newPod("policy", flexVolume(other), stays...), "FlexVolume drivers that may be used here: " + driverName},
		{"a look-alike option", newPod("policy", flexVolume(driverName, lookalike), stays...), "printable ASCII"},
		{"a persistent volume of another driver", newPersistentVolume("policy", flexVolume(other)), "FlexVolume drivers that may be used here: " + driverName},
		{"a persistent volume with a look-alike option", newPersistentVolume("policy", flexVolume(driverName, lookalike)), "printable ASCII"},
		{"a restricted pod", elsewhere, "restricted volume types"},
		{"our driver", newPod("policy", flexVolume(driverName, "colour"), stays...), ""},
		{"no driver", newPod("policy", object{"emptyDir": object{}}, stays...), ""},
		{"our persistent volume", newPersistentVolume("policy", flexVolume(driverName)), ""},
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

// admission asks the API server, which makes nothing, whether it would.
func admission(o object, denied string) error {
	_, err := testCluster.kubectlWith(harness.JSON(o), "create", "--dry-run=server", "-f", "-")
	switch {
	case denied == "":
		return err
	case err == nil:
		return fmt.Errorf("it is admitted, want a refusal with %q", denied)
	case !strings.Contains(err.Error(), denied):
		return fmt.Errorf("it is refused without %q: %w", denied, err)
	}
	return nil
}
