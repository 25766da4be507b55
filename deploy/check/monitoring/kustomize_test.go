package monitoring

import (
	"bytes"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// build does what `kubectl kustomize` does, and returns the kinds and names of the objects.
func build(t *testing.T, dir string) (ids []string) {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	for _, r := range resources.Resources() {
		ids = append(ids, r.GetKind()+" "+r.GetNamespace()+"/"+r.GetName())
	}
	return ids
}

// The kustomizations have all that the manifests have which they are made of.
func TestKustomizationsBuild(t *testing.T) {
	for dir, values := range map[string]string{
		"../..":            "createNamespace=true",
		"../../monitoring": all,
	} {
		want := 0
		manifest := render(t, values)
		for _, kind := range []string{"DaemonSet", "Namespace", "ServiceAccount", "ResourceQuota"} {
			if dir == "../.." {
				want += bytes.Count(manifest, []byte("\nkind: "+kind+"\n"))
			}
		}
		for _, kind := range []string{"PodMonitor", "PrometheusRule", "ConfigMap", "NetworkPolicy"} {
			if dir != "../.." {
				want += bytes.Count(manifest, []byte("\nkind: "+kind+"\n"))
			}
		}
		if got := build(t, dir); len(got) != want || want == 0 {
			t.Errorf("%s has %q, want %d objects", dir, got, want)
		}
	}
}
