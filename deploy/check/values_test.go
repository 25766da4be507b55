package check

import (
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// leaves are the paths of the values that can be set, as --set takes them.
func leaves(t *testing.T) map[string]bool {
	t.Helper()
	content, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	paths := make(map[string]bool)
	collect(paths, "", values)
	return paths
}

// collect stops at what Kubernetes, and not the chart, gives a form.
func collect(paths map[string]bool, prefix string, values map[string]any) {
	for key, value := range values {
		if inner, ok := value.(map[string]any); ok && len(inner) > 0 && !isOfKubernetes(key) {
			collect(paths, prefix+key+".", inner)
			continue
		}
		paths[prefix+key] = true
	}
}

func isOfKubernetes(key string) bool {
	return key == "nodeSelector" || key == "affinity" || key == "resources"
}

// Each value, switched, has the effect that it is there for. None changes the selector of the
// DaemonSet, which could not be upgraded to it.
func TestEachValueHasItsEffect(t *testing.T) {
	standard := render(t)
	untested := leaves(t)
	for _, row := range effects {
		for _, path := range row.values {
			if !untested[path] && !row.again {
				t.Errorf("%s is tested twice, or is no value", path)
			}
			delete(untested, path)
		}
		t.Run(strings.Join(row.values, ","), func(t *testing.T) {
			got := render(t, row.flags...)
			for _, text := range row.adds {
				if !strings.Contains(got, text) || strings.Contains(standard, text) {
					t.Errorf("%v does not add %q to:\n%s", row.flags, text, got)
				}
			}
			for _, text := range row.removes {
				if strings.Contains(got, text) || !strings.Contains(standard, text) {
					t.Errorf("%v does not remove %q from:\n%s", row.flags, text, got)
				}
			}
			set := only[*appsv1.DaemonSet](t, decode(t, []byte(got), row.foreign))
			if want := only[*appsv1.DaemonSet](t, decode(t, []byte(standard))).Spec.Selector; set.Spec.Selector.String() != want.String() {
				t.Errorf("the selector is %v, want %v", set.Spec.Selector, want)
			}
		})
	}
	for path := range untested {
		t.Errorf("nothing tests value %s", path)
	}
}
