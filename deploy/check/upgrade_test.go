package check

import (
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// chartBefore is what 0.1.1 had.
const chartBefore = "testdata/pod-info-fuse-0.1.1.tgz"

// `helm upgrade --reuse-values` renders the chart with the values of the chart before: those that
// are new have no default then.
func TestUpgradeWithTheValuesBefore(t *testing.T) {
	values, stderr, err := run("show", "values", chartBefore)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	upgraded := filepath.Join(t.TempDir(), "pod-info-fuse")
	if err := os.CopyFS(upgraded, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(upgraded, "values.yaml"), []byte(values), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{
		nil,
		{"--set", "uninstall=true"},
		{"--set", "image.repository=registry.example.org/driver,image.pullSecrets[0].name=mine,updateStrategy.maxUnavailable=3,metrics.scrapeAnnotations=false"},
		{"--set", "csi.enabled=true,podFuse.enabled=true,podFuse.csi.enabled=true,policies.validatingAdmissionPolicy=true,policies.securityContextConstraints=true"},
		{"--set", "metrics.podMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true,metrics.networkPolicy.enabled=true"},
	} {
		args := append([]string{"template", "pod-info-fuse", upgraded, "--namespace", "pod-info-fuse"}, flags...)
		got, stderr, err := run(args...)
		if err != nil {
			t.Errorf("%v: %v: %s", flags, err, stderr)
		} else if want := render(t, flags...); got != want {
			t.Errorf("%v: with the values of 0.1.1, it is\n%s\nwant\n%s", flags, got, want)
		}
	}
}

// A DaemonSet keeps its name and its selector, which cannot be changed.
func TestUpgradeKeepsTheDaemonSet(t *testing.T) {
	for _, release := range []string{"pod-info-fuse", "other"} {
		var sets []*appsv1.DaemonSet
		for _, version := range []string{chartBefore, chart} {
			manifest, stderr, err := run("template", release, version)
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			sets = append(sets, only[*appsv1.DaemonSet](t, decode(t, []byte(manifest))))
		}
		if was, is := sets[0], sets[1]; was.Name != is.Name || was.Spec.Selector.String() != is.Spec.Selector.String() {
			t.Errorf("release %s: was %s, %v; is %s, %v", release, was.Name, was.Spec.Selector, is.Name, is.Spec.Selector)
		}
	}
}
