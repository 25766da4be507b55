package check

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
		if filepath.Base(file) == "pod-security-policy.yaml" { // module psp does
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			if len(decode(t, read(t, file))) == 0 {
				t.Error("has no objects")
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
		chart + "/Chart.yaml":   `(?m)^version: (\S+)$`,
		"../pod-info-fuse.yaml": `image: "example.com/pod-info-fuse:(\S+)"`,
		"../uninstall.yaml":     `image: "example.com/pod-info-fuse:(\S+)"`,
	} {
		if got := match(t, file, pattern); got != version {
			t.Errorf("%s is of version %s, want %s", file, got, version)
		}
	}
	if got := match(t, chart+"/Chart.yaml", `(?m)^appVersion: "(\S+)"$`); got != version {
		t.Errorf("the chart is of application version %s, want %s", got, version)
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
