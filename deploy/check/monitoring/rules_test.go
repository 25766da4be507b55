package monitoring

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// minute is how often metrics are read and rules are evaluated here.
const minute = time.Minute

// ruleFile writes the rules as Prometheus reads them.
func ruleFile(t *testing.T) (path string, groups *rulefmt.RuleGroups) {
	t.Helper()
	content, err := yaml.Marshal(object[monitoringv1.PrometheusRule](t, render(t, all), "PrometheusRule").Spec)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(content, false)
	if len(errs) > 0 {
		t.Fatalf("%v:\n%s", errs, content)
	}
	path = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, groups
}

// evaluate evaluates the rules once a minute for a time, and returns the alerts that fire at its end,
// with their severity and summary.
func evaluate(t *testing.T, file, series string, until time.Duration) map[string]alert {
	t.Helper()
	var load strings.Builder
	load.WriteString("load 1m\n")
	series = strings.ReplaceAll(series, "x600", fmt.Sprintf("x%d", until/minute+1)) // no more than is looked at
	for line := range strings.Lines(series) {
		if line = strings.TrimSpace(line); line != "" {
			load.WriteString("  " + line + "\n")
		}
	}
	storage := promqltest.LoadedStorage(t, load.String())
	t.Cleanup(func() { storage.Close() })
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{}, QueryFunc: rules.EngineQueryFunc(engine, storage), Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Appendable: storage, Queryable: storage,
	})
	groups, errs := manager.LoadGroups(minute, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	firing := map[string]alert{}
	for _, group := range groups {
		for at := time.Duration(0); at <= until; at += minute {
			group.Eval(t.Context(), time.Unix(0, 0).Add(at).UTC())
		}
		for _, rule := range group.AlertingRules() {
			if err := rule.LastError(); err != nil {
				t.Errorf("%s: %v", rule.Name(), err)
			}
			for _, a := range rule.ActiveAlerts() {
				if a.State == rules.StateFiring {
					firing[rule.Name()] = alert{a.Labels.Get("severity"), a.Annotations.Get("summary"), a.Annotations.Get("description")}
				}
			}
		}
	}
	return firing
}

type alert struct{ severity, summary, description string }

// names lists them.
func names(firing map[string]alert) []string {
	all := []string{}
	for name := range firing {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// of replaces the names of the first driver by those of the second.
func of(prefix, text string) string {
	if prefix == "PodFuse" {
		return strings.ReplaceAll(text, "pod_info_fuse", "pod_fuse")
	}
	return text
}

// Each alert fires where it should, alone, and not where it should not: nothing else is worth an alert then.
func TestAlerts(t *testing.T) {
	file, groups := ruleFile(t)
	untested := map[string]bool{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if untested[r.Alert] {
				t.Errorf("there are two alerts %s", r.Alert)
			}
			untested[r.Alert] = true
		}
	}
	test := func(name, alert, prefix string, c moment, fires bool) {
		t.Run(fmt.Sprintf("%s/fires %v, %s", alert, fires, name), func(t *testing.T) {
			firing := evaluate(t, file, of(prefix, merge(healthy(prefix), c.series)), c.at)
			want := []string{}
			if fires {
				want = append([]string{alert}, c.with...)
				for i := range want {
					want[i] = strings.Replace(want[i], "PodInfoFuse", prefix, 1)
				}
				slices.Sort(want)
			}
			if got := names(firing); !slices.Equal(got, want) {
				t.Fatalf("%q fire, want %q: %+v", got, want, firing)
			}
			for name, a := range firing {
				for _, text := range []string{a.summary, a.description} {
					if text == "" || strings.Contains(text, "<no value>") || strings.Contains(text, "error") && strings.Contains(text, "template") || strings.Contains(text, "%!") {
						t.Errorf("%s says %q", name, text)
					}
				}
				if !strings.Contains(a.summary, "10.0.0.7:9808") {
					t.Errorf("%s does not say of which node: %q", name, a.summary)
				}
			}
			if a := firing[want0(want, alert, prefix)]; fires && a.severity != c.severity {
				t.Errorf("its severity is %s, want %s", a.severity, c.severity)
			}
		})
	}
	for _, c := range cases {
		prefixes := []string{"PodInfoFuse", "PodFuse"} // both drivers have what is of each
		if strings.HasPrefix(c.alert, "PodFuse") {
			prefixes = prefixes[1:]
		}
		if len(c.fires) == 0 || len(c.doesNot) == 0 {
			t.Errorf("%s has no case in which it fires, or none in which it does not", c.alert)
		}
		for _, prefix := range prefixes {
			name := strings.Replace(c.alert, "PodInfoFuse", prefix, 1)
			if !untested[name] {
				t.Errorf("there is no alert %s, or it is tested twice", name)
			}
			delete(untested, name)
			for what, m := range c.fires {
				test(what, c.alert, prefix, m, true)
			}
			for what, m := range c.doesNot {
				test(what, c.alert, prefix, m, false)
			}
		}
	}
	for name := range untested {
		t.Errorf("nothing tests alert %s", name)
	}
}

func want0(want []string, alert, prefix string) string {
	name := strings.Replace(alert, "PodInfoFuse", prefix, 1)
	if slices.Contains(want, name) {
		return name
	}
	return ""
}

// A user who mistypes an option, and a kubelet that tries for hours, alert nobody.
func TestAMistypedOptionAlertsNobody(t *testing.T) {
	file, _ := ruleFile(t)
	const failing = `
		pod_info_fuse_callouts_total{callout="mount",outcome="Failure"} 0+1x240
		pod_info_fuse_callouts_total{callout="mount",outcome="Success"} 3x240
		pod_info_fuse_request_errors_total{error="ENOENT"} 0+7x240
		pod_info_fuse_request_errors_total{error="EROFS"} 0+7x240`
	for _, prefix := range []string{"PodInfoFuse", "PodFuse"} {
		for at := 10 * minute; at <= 240*minute; at += 46 * minute {
			if firing := evaluate(t, file, of(prefix, merge(healthy(prefix), failing)), at); len(firing) > 0 {
				t.Errorf("%s, after %v: %+v", prefix, at, firing)
			}
		}
	}
}

// Severities are two, and mean what docs/monitoring.md says.
func TestSeverities(t *testing.T) {
	_, groups := ruleFile(t)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s has severity %q", r.Alert, s)
			}
		}
	}
}
