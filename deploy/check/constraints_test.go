package check

import (
	"slices"
	"testing"

	securityv1 "github.com/openshift/api/security/v1"
)

const constraintsFile = "../policies/security-context-constraints.yaml"

func constraints(t *testing.T, manifest []byte, name string) *securityv1.SecurityContextConstraints {
	t.Helper()
	for _, object := range decode(t, manifest) {
		if found, ok := object.(*securityv1.SecurityContextConstraints); ok && found.Name == name {
			return found
		}
	}
	t.Fatalf("no constraints %s", name)
	return nil
}

// Users get this driver, and nothing else of the host.
func TestConstraintsOfUsers(t *testing.T) {
	scc := constraints(t, read(t, constraintsFile), "pod-info-fuse-users")
	if !slices.Equal(scc.AllowedFlexVolumes, []securityv1.AllowedFlexVolume{{Driver: "example.com/pod-info-fuse"}}) {
		t.Errorf("allowed are %+v", scc.AllowedFlexVolumes)
	}
	if !slices.Contains(scc.Volumes, securityv1.FSTypeFlexVolume) || slices.Contains(scc.Volumes, securityv1.FSTypeHostPath) ||
		slices.Contains(scc.Volumes, securityv1.FSTypeAll) {
		t.Errorf("volumes are %v", scc.Volumes)
	}
	if scc.AllowHostDirVolumePlugin || scc.AllowHostIPC || scc.AllowHostNetwork || scc.AllowHostPID || scc.AllowHostPorts ||
		scc.AllowPrivilegedContainer || *scc.AllowPrivilegeEscalation {
		t.Errorf("allows more of the host: %+v", scc)
	}
}

// The installer's allow what its container asks for.
func TestConstraintsOfInstaller(t *testing.T) {
	scc := constraints(t, read(t, constraintsFile), "pod-info-fuse-installer")
	if !scc.AllowHostDirVolumePlugin || !scc.AllowHostPID || scc.AllowPrivilegedContainer ||
		!slices.Contains(scc.Volumes, securityv1.FSTypeHostPath) || !slices.Contains(scc.AllowedCapabilities, "SYS_CHROOT") {
		t.Errorf("does not fit the installer: %+v", scc)
	}
}

// Who may use pod-fuse has constraints of its own, and those of others do not list it.
func TestConstraintsTellTheDriversApart(t *testing.T) {
	manifest := []byte(render(t, "--set", "policies.securityContextConstraints=true,podFuse.enabled=true"))
	for name, want := range map[string][]securityv1.AllowedFlexVolume{
		"pod-info-fuse-users":          {{Driver: "example.com/pod-info-fuse"}},
		"pod-info-fuse-pod-fuse-users": {{Driver: "example.com/pod-info-fuse"}, {Driver: "example.com/pod-fuse"}},
	} {
		if got := constraints(t, manifest, name).AllowedFlexVolumes; !slices.Equal(got, want) {
			t.Errorf("%s allows %v, want %v", name, got, want)
		}
	}
}

// What mounts or unmounts on the host is privileged.
func TestConstraintsOfWhatMounts(t *testing.T) {
	for _, value := range []string{"uninstall", "csi.enabled", "healFromHost", "podFuse.uninstall"} {
		manifest := render(t, "--set", "policies.securityContextConstraints=true,"+value+"=true")
		scc := constraints(t, []byte(manifest), "pod-info-fuse-installer")
		if !scc.AllowPrivilegedContainer || !scc.AllowHostPID || !scc.AllowHostDirVolumePlugin {
			t.Errorf("does not fit %s: %+v", value, scc)
		}
	}
}
