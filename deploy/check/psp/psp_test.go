// Package psp has the tests of the pod security policies, whose types are only in
// old versions of the API.
package psp

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// policies are the manifest's, by name; everything in it is decoded strictly.
func policies(t *testing.T, manifest []byte) map[string]policyv1beta1.PodSecurityPolicySpec {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{policyv1beta1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	found := make(map[string]policyv1beta1.PodSecurityPolicySpec)
	for _, document := range bytes.Split(manifest, []byte("\n---\n")) {
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if policy, ok := object.(*policyv1beta1.PodSecurityPolicy); ok {
			found[policy.Name] = policy.Spec
		}
	}
	return found
}

// plain is what is there for those who do not use Helm.
func plain(t *testing.T) []byte {
	t.Helper()
	manifest, err := os.ReadFile("../../policies/pod-security-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

// Users get this driver, and nothing else of the host.
func TestUsers(t *testing.T) {
	policy, found := policies(t, plain(t))["pod-info-fuse-users"]
	if !found {
		t.Fatal("no policy for users")
	}
	if !slices.Equal(policy.AllowedFlexVolumes, []policyv1beta1.AllowedFlexVolume{{Driver: "example.com/pod-info-fuse"}}) {
		t.Errorf("allowed are %+v", policy.AllowedFlexVolumes)
	}
	if !slices.Contains(policy.Volumes, policyv1beta1.FlexVolume) ||
		slices.Contains(policy.Volumes, policyv1beta1.HostPath) || slices.Contains(policy.Volumes, policyv1beta1.All) {
		t.Errorf("volumes are %v", policy.Volumes)
	}
	if policy.Privileged || *policy.AllowPrivilegeEscalation || policy.HostPID || policy.HostIPC || policy.HostNetwork {
		t.Errorf("allows more of the host: %+v", policy)
	}
}

// The installer's allows what its container asks for.
func TestInstaller(t *testing.T) {
	policy, found := policies(t, plain(t))["pod-info-fuse-installer"]
	if !found {
		t.Fatal("no policy for the installer")
	}
	if policy.Privileged || !policy.HostPID || !slices.Contains(policy.Volumes, policyv1beta1.HostPath) ||
		!slices.Equal(policy.AllowedCapabilities, []corev1.Capability{"SYS_CHROOT"}) {
		t.Errorf("does not fit the installer: %+v", policy)
	}
}

// rendered is what the chart has with a value that is true.
func rendered(t *testing.T, value string) map[string]policyv1beta1.PodSecurityPolicySpec {
	t.Helper()
	manifest, err := exec.Command("../../../bin/helm", "template", "pod-info-fuse", "../../chart/pod-info-fuse",
		"--set", "policies.podSecurityPolicy=true,"+value+"=true",
		"--show-only", "templates/podsecuritypolicy.yaml").Output()
	if err != nil {
		t.Fatal(err)
	}
	return policies(t, manifest)
}

// Who may use pod-fuse has a policy of its own, and that of others does not list it.
func TestUsersOfTwoDrivers(t *testing.T) {
	policies := rendered(t, "podFuse.enabled")
	for name, want := range map[string][]policyv1beta1.AllowedFlexVolume{
		"pod-info-fuse-users":          {{Driver: "example.com/pod-info-fuse"}},
		"pod-info-fuse-pod-fuse-users": {{Driver: "example.com/pod-info-fuse"}, {Driver: "example.com/pod-fuse"}},
	} {
		if got := policies[name].AllowedFlexVolumes; !slices.Equal(got, want) {
			t.Errorf("%s allows %v, want %v", name, got, want)
		}
	}
}

// What mounts or unmounts on the host is privileged.
func TestWhatMounts(t *testing.T) {
	for _, value := range []string{"uninstall", "csi.enabled", "healFromHost", "podFuse.uninstall"} {
		policy := rendered(t, value)["pod-info-fuse-installer"]
		if !policy.Privileged || !policy.HostPID || !slices.Contains(policy.Volumes, policyv1beta1.HostPath) {
			t.Errorf("does not fit %s: %+v", value, policy)
		}
	}
}

// Users of CSI volumes get those of this driver.
func TestUsersOfCSI(t *testing.T) {
	policy := rendered(t, "csi.enabled")["pod-info-fuse-users"]
	if !slices.Contains(policy.Volumes, policyv1beta1.CSI) ||
		!slices.Equal(policy.AllowedCSIDrivers, []policyv1beta1.AllowedCSIDriver{{Name: "pod-info-fuse.example.com"}}) {
		t.Errorf("volumes are %v, of the CSI drivers %v", policy.Volumes, policy.AllowedCSIDrivers)
	}
}
