package check

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What the kubelet does with the driver hangs on these, and a default would be wrong for most.
func TestTheCSIDriver(t *testing.T) {
	modes := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent}
	for _, objects := range [][]runtime.Object{
		decode(t, read(t, "../pod-info-fuse-csi.yaml")),
		decode(t, read(t, "../uninstall-csi.yaml")),
		decode(t, []byte(render(t, "--set", "podFuse.enabled=true,podFuse.csi.enabled=true"))),
	} {
		driver := only[*storagev1.CSIDriver](t, objects)
		spec := driver.Spec
		// SELinuxMount would give persistent volumes a mount option, which the plugin refuses.
		if !*spec.PodInfoOnMount || *spec.AttachRequired || !*spec.RequiresRepublish || spec.SELinuxMount != nil ||
			*spec.FSGroupPolicy != storagev1.NoneFSGroupPolicy || !slices.Equal(spec.VolumeLifecycleModes, modes) {
			t.Errorf("the object of %s is %+v", driver.Name, spec)
		}
		want := map[string]string{"pod-info-fuse.example.com": "restricted", "pod-fuse.example.com": "baseline"}[driver.Name]
		if got := driver.Labels["security.openshift.io/csi-ephemeral-volume-profile"]; got != want {
			t.Errorf("OpenShift's label of %s is %q, want %q", driver.Name, got, want)
		}
	}
}

// csiContainer is the plugin's container of a manifest.
func csiContainer(t *testing.T, file string) (corev1.PodSpec, corev1.Container) {
	t.Helper()
	pod := only[*appsv1.DaemonSet](t, decode(t, read(t, file))).Spec.Template.Spec
	return pod, container(t, pod, "csi")
}

// The plugin has of the host's files the two directories with its sockets, and the
// installer's container is what it is without it.
func TestThePluginHasItsSocketsOnly(t *testing.T) {
	pod, plugin := csiContainer(t, "../pod-info-fuse-csi.yaml")
	if !pod.HostPID || pod.HostNetwork || !*plugin.SecurityContext.Privileged || !*plugin.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("has %+v", plugin.SecurityContext)
	}
	paths := map[string]string{}
	for _, volume := range pod.Volumes {
		paths[volume.Name] = volume.HostPath.Path
	}
	got := map[string]string{}
	for _, mount := range plugin.VolumeMounts {
		if mount.MountPropagation != nil {
			t.Errorf("%s is propagated", mount.Name)
		}
		got[mount.MountPath] = paths[mount.Name]
	}
	want := map[string]string{
		"/csi":          "/var/lib/kubelet/plugins/pod-info-fuse.example.com",
		"/registration": "/var/lib/kubelet/plugins_registry",
	}
	if len(got) != len(want) || got["/csi"] != want["/csi"] || got["/registration"] != want["/registration"] {
		t.Errorf("has %v of the host, want %v", got, want)
	}
	assertNoToken(t, pod)
	without := only[*appsv1.DaemonSet](t, decode(t, read(t, "../pod-info-fuse.yaml"))).Spec.Template.Spec.Containers[0]
	if with := pod.Containers[0].SecurityContext; with.Privileged != nil || with.String() != without.SecurityContext.String() {
		t.Errorf("the installer has %v beside it, and %v without", with, without.SecurityContext)
	}
}

// A kubelet makes an event, a warning, of each probe that fails. Containers that have just begun
// take a moment until they listen, and longer until the driver is installed, for which the answer
// waits for four seconds.
func TestAnInstallationIsNotProbedTooEarly(t *testing.T) {
	pod := only[*appsv1.DaemonSet](t, decode(t, read(t, "../pod-info-fuse-csi.yaml"))).Spec.Template.Spec
	pod.Containers = append(pod.Containers, container(t, only[*appsv1.DaemonSet](t, decode(t, read(t, "../pod-fuse.yaml"))).Spec.Template.Spec, "pod-fuse"))
	if len(pod.Containers) != 3 {
		t.Fatalf("there are %d containers", len(pod.Containers))
	}
	for _, c := range pod.Containers {
		for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
			if probe.InitialDelaySeconds < 2 || probe.TimeoutSeconds < 5 {
				t.Errorf("%s is probed after %d s, for %d s", c.Name, probe.InitialDelaySeconds, probe.TimeoutSeconds)
			}
		}
	}
}

// What is removed by the manifests is what they install: a CSI driver that was never there would be
// registered with each kubelet, to be removed again.
func TestUninstallingRegistersNoOtherCSIDriver(t *testing.T) {
	has := func(file string) (names []string) {
		for _, object := range decode(t, read(t, file)) {
			switch object := object.(type) {
			case *storagev1.CSIDriver:
				names = append(names, object.Name)
			case *appsv1.DaemonSet:
				for _, c := range object.Spec.Template.Spec.Containers {
					if c.Command[0] == "/pod-info-fuse-csi" {
						names = append(names, c.Name)
					}
				}
			}
		}
		slices.Sort(names)
		return names
	}
	installs, removes := has("../pod-info-fuse-csi.yaml"), has("../uninstall-csi.yaml")
	if len(installs) != 2 || !slices.Equal(removes, installs) {
		t.Errorf("installed are %q, and to uninstall there are %q", installs, removes)
	}
}

// The plugin unmounts until the last volume is gone, and then its sockets are taken away: a
// probe would have it started again, or the rollout wait for ever.
func TestThePluginIsNotProbedWhileItIsUninstalled(t *testing.T) {
	_, installed := csiContainer(t, "../pod-info-fuse-csi.yaml")
	if installed.ReadinessProbe == nil || installed.LivenessProbe == nil {
		t.Error("has no probes while it is installed")
	}
	_, plugin := csiContainer(t, "../uninstall-csi.yaml")
	if plugin.ReadinessProbe != nil || plugin.LivenessProbe != nil || plugin.StartupProbe != nil {
		t.Errorf("has probes: %+v", plugin)
	}
}
