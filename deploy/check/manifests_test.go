package check

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// What is in the tree to be applied is what API servers take.
func TestManifestsDecode(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../*.yaml", "../examples/*.yaml", "../policies/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no files %s (%v)", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		switch filepath.Base(file) {
		case "pod-security-policy.yaml", "kustomization.yaml", "programs.yaml": // modules psp and monitoring do; the last is for Helm
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			if len(decode(t, read(t, file))) == 0 {
				t.Error("has no objects")
			}
			if label := regexp.MustCompile(`helm.sh/chart|managed-by`).Find(read(t, file)); label != nil {
				t.Errorf("Helm does not manage it, and it has a label %s", label)
			}
		})
	}
}

// The examples ask for the driver that is installed.
func TestExamplesUseTheDriver(t *testing.T) {
	const driver = "example.com/pod-info-fuse"
	pod := only[*corev1.Pod](t, decode(t, read(t, "../examples/pod.yaml")))
	if got := pod.Spec.Volumes[0].FlexVolume.Driver; got != driver {
		t.Errorf("the pod uses %q", got)
	}
	objects := decode(t, read(t, "../examples/persistent-volume.yaml"))
	volume := only[*corev1.PersistentVolume](t, objects)
	claim := only[*corev1.PersistentVolumeClaim](t, objects)
	if got := volume.Spec.FlexVolume.Driver; got != driver {
		t.Errorf("the persistent volume uses %q", got)
	}
	if claim.Spec.VolumeName != volume.Name || volume.Spec.ClaimRef.Name != claim.Name {
		t.Errorf("claim %s and volume %s do not ask for each other", claim.Name, volume.Name)
	}
	pod = only[*corev1.Pod](t, objects)
	if got := pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; got != claim.Name {
		t.Errorf("the pod uses claim %q", got)
	}
}

// So do those for CSI, which are the same but for that, and the kubelet knows it by the
// object's name.
func TestExamplesUseTheCSIDriver(t *testing.T) {
	driver := only[*storagev1.CSIDriver](t, decode(t, read(t, "../pod-info-fuse-csi.yaml"))).Name
	for _, file := range []string{"pod-csi.yaml", "watch-csi.yaml"} {
		pod := only[*corev1.Pod](t, decode(t, read(t, "../examples/"+file)))
		if source := pod.Spec.Volumes[0].CSI; source == nil || source.Driver != driver {
			t.Errorf("%s uses %+v, want %q", file, source, driver)
		}
	}
	byFlexVolume := only[*corev1.Pod](t, decode(t, read(t, "../examples/watch-flexvolume.yaml")))
	byCSI := only[*corev1.Pod](t, decode(t, read(t, "../examples/watch-csi.yaml")))
	if source := byFlexVolume.Spec.Volumes[0].FlexVolume; source == nil || source.Driver != "example.com/pod-info-fuse" {
		t.Errorf("watch-flexvolume.yaml uses %+v", source)
	}
	objects := decode(t, read(t, "../examples/persistent-volume-csi.yaml"))
	volume, claim, byClaim := only[*corev1.PersistentVolume](t, objects), only[*corev1.PersistentVolumeClaim](t, objects), only[*corev1.Pod](t, objects)
	if source := volume.Spec.CSI; source == nil || source.Driver != driver || source.VolumeHandle == "" {
		t.Errorf("persistent-volume-csi.yaml uses %+v", source)
	}
	if claim.Spec.VolumeName != volume.Name || volume.Spec.ClaimRef.Name != claim.Name || volume.Spec.ClaimRef.Namespace != claim.Namespace ||
		byClaim.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != claim.Name || byClaim.Namespace != claim.Namespace {
		t.Errorf("volume %+v, claim %+v and pod %+v do not ask for each other", volume.Spec, claim, byClaim.Spec.Volumes)
	}
	for _, other := range []*corev1.Pod{byFlexVolume, byClaim} {
		other.Name, other.Namespace, other.Spec.Volumes = byCSI.Name, byCSI.Namespace, byCSI.Spec.Volumes
		if !reflect.DeepEqual(other, byCSI) {
			t.Errorf("the watchers differ in more than their volume:\n%v\n%v", other, byCSI)
		}
	}
}

// Who reads the README alone gets the same pod.
func TestTheReadmesPodIsTheExample(t *testing.T) {
	_, block, _ := strings.Cut(string(read(t, "../../README.md")), "\n```yaml\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	readme := only[*corev1.Pod](t, decode(t, []byte(block)))
	example := only[*corev1.Pod](t, decode(t, read(t, "../examples/pod.yaml")))
	if !reflect.DeepEqual(readme, example) {
		t.Errorf("the README has %v, the example is %v", readme, example)
	}
}

// Chart, manifests and Makefile are of one version.
func TestVersions(t *testing.T) {
	version := match(t, "../../Makefile", `(?m)^VERSION \?= (\S+)$`)
	for file, pattern := range map[string]string{
		chart + "/Chart.yaml":                    `(?m)^version: (\S+)$`,
		"../pod-info-fuse.yaml":                  `image: "example.com/pod-info-fuse:(\S+)"`,
		"../pod-info-fuse-csi.yaml":              `image: "example.com/pod-info-fuse:(\S+)"`,
		"../pod-fuse.yaml":                       `image: "example.com/pod-info-fuse:(\S+)"`,
		"../uninstall-pod-fuse.yaml":             `image: "example.com/pod-info-fuse:(\S+)"`,
		"../uninstall.yaml":                      `image: "example.com/pod-info-fuse:(\S+)"`,
		"../uninstall-csi.yaml":                  `image: "example.com/pod-info-fuse:(\S+)"`,
		"../examples/watch-csi.yaml":             `image: example.com/pod-info-fuse:(\S+)`,
		"../examples/watch-flexvolume.yaml":      `image: example.com/pod-info-fuse:(\S+)`,
		"../examples/persistent-volume-csi.yaml": `image: example.com/pod-info-fuse:(\S+)`,
	} {
		if got := match(t, file, pattern); got != version {
			t.Errorf("%s is of version %s, want %s", file, got, version)
		}
	}
	if got := match(t, chart+"/Chart.yaml", `(?m)^appVersion: "(\S+)"$`); got != version {
		t.Errorf("the chart is of application version %s, want %s", got, version)
	}
	if got := match(t, chart+"/Chart.yaml", `(?m)^ +image: example.com/pod-info-fuse:(\S+)$`); got != version {
		t.Errorf("the chart's annotations have an image of version %s, want %s", got, version)
	}
}

func match(t *testing.T, file, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindSubmatch(read(t, file))
	if found == nil {
		t.Fatalf("%s has no %s", file, pattern)
	}
	return string(found[1])
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
