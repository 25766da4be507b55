package check

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The installers of every day have one capability, and the host's files.
func TestInstallersHaveTheLeastThatWorks(t *testing.T) {
	pod := only[*appsv1.DaemonSet](t, decode(t, read(t, "../pod-fuse.yaml"))).Spec.Template.Spec
	for _, name := range []string{"installer", "pod-fuse"} {
		installer := container(t, pod, name)
		context := installer.SecurityContext
		if context.Privileged != nil || *context.AllowPrivilegeEscalation || !*context.ReadOnlyRootFilesystem {
			t.Errorf("%s may do too much: %+v", name, context)
		}
		if !slices.Equal(context.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
			!slices.Equal(context.Capabilities.Add, []corev1.Capability{"SYS_CHROOT"}) {
			t.Errorf("the capabilities of %s are %+v", name, context.Capabilities)
		}
		if context.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("the seccomp profile of %s is %v", name, context.SeccompProfile)
		}
		mount := installer.VolumeMounts[0]
		if len(installer.VolumeMounts) != 1 || mount.Name != "host" || mount.MountPath != "/host" ||
			*mount.MountPropagation != corev1.MountPropagationHostToContainer {
			t.Errorf("%s has mounted %+v", name, mount)
		}
	}
	if pod.HostNetwork || pod.HostIPC || !pod.HostPID {
		t.Errorf("host namespaces: network %v, IPC %v, PID %v", pod.HostNetwork, pod.HostIPC, pod.HostPID)
	}
	if len(pod.Volumes) != 1 || pod.Volumes[0].Name != "host" || pod.Volumes[0].HostPath.Path != "/" {
		t.Errorf("volumes %+v", pod.Volumes)
	}
	assertNoToken(t, pod)
}

// One that removes unmounts on the host, in the namespaces of a process there.
func TestUninstallersArePrivileged(t *testing.T) {
	for file, names := range map[string][]string{
		"../uninstall.yaml":          {"installer", "pod-fuse"},
		"../uninstall-csi.yaml":      {"installer", "pod-fuse"},
		"../uninstall-pod-fuse.yaml": {"pod-fuse"},
	} {
		pod := only[*appsv1.DaemonSet](t, decode(t, read(t, file))).Spec.Template.Spec
		for _, name := range names {
			context := container(t, pod, name).SecurityContext
			if context.Privileged == nil || !*context.Privileged || !pod.HostPID {
				t.Errorf("%s of %s cannot enter the host's namespaces: %+v, host's PIDs %v", name, file, context, pod.HostPID)
			}
		}
		assertNoToken(t, pod)
	}
}

func assertNoToken(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("has a token, and no use for it")
	}
}

// Where the image has no binary, the installer's pods would fail for ever.
func TestOnlyNodesThatTheImageIsForGetTheDriver(t *testing.T) {
	architectures := strings.Fields(match(t, "../../Makefile", `(?m)^ARCHITECTURES = (.+)$`))
	for _, manifest := range []string{"../pod-info-fuse.yaml", "../pod-fuse.yaml", "../uninstall.yaml", "../uninstall-pod-fuse.yaml"} {
		pod := only[*appsv1.DaemonSet](t, decode(t, read(t, manifest))).Spec.Template.Spec
		want := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: architectures},
				}}},
			},
		}}
		if !reflect.DeepEqual(pod.Affinity, want) {
			t.Errorf("%s: the affinity is %v, want %v", manifest, pod.Affinity, want)
		}
	}
}

// A pod that waits for its volume must not wait for a node without the driver.
func TestEveryNodeGetsTheDriver(t *testing.T) {
	pod := only[*appsv1.DaemonSet](t, decode(t, read(t, "../pod-info-fuse.yaml"))).Spec.Template.Spec
	if !slices.Contains(pod.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists}) {
		t.Errorf("tolerates only %+v", pod.Tolerations)
	}
}
