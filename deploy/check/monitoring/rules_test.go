package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// minute is how often metrics are read and rules are evaluated here.
const minute = time.Minute

// ruleFile writes the rules as Prometheus reads them.
func ruleFile(t *testing.T) (path string, groups []monitoringv1.RuleGroup) {
	t.Helper()
	spec := object[monitoringv1.PrometheusRule](t, render(t, all), "PrometheusRule").Spec
	content, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, spec.Groups
}

// The types below are what is used here of the tests that promtool test rules reads
// (prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules).
type (
	unitTests struct {
		Files []string   `json:"rule_files"`
		Each  string     `json:"evaluation_interval"`
		Tests []unitTest `json:"tests"`
	}
	unitTest struct {
		Each    string        `json:"interval"`
		Series  []inputSeries `json:"input_series"`
		Queries []query       `json:"promql_expr_test"`
	}
	inputSeries struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	query struct {
		Expr    string   `json:"expr"`
		At      string   `json:"eval_time"`
		Samples []sample `json:"exp_samples"`
	}
	sample struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	}
)

// are asks for the values that a label of some alerts has at a time, which must be these. Alerts
// say by series of their own that they fire.
func are(label, matchers string, at time.Duration, values ...string) query {
	q := query{Expr: fmt.Sprintf(`group by (%s) (ALERTS{alertstate="firing"%s})`, label, matchers), At: at.String()}
	for _, value := range values {
		q.Samples = append(q.Samples, sample{fmt.Sprintf("{%s=%q}", label, value), 1})
	}
	return q
}

// promtool evaluates the rules once a minute, and asks.
func promtool(t *testing.T, rules, series string, queries ...query) {
	t.Helper()
	test := unitTest{Each: minute.String(), Queries: queries}
	for line := range strings.Lines(series) {
		name, values, found := strings.Cut(strings.TrimSpace(line), "} ")
		if !found {
			t.Fatalf("no series: %q", line)
		}
		test.Series = append(test.Series, inputSeries{name + "}", values})
	}
	content, err := yaml.Marshal(unitTests{[]string{rules}, minute.String(), []unitTest{test}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("../../../bin/promtool", "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

// The drivers, as the label has them.
const first, second = "pod-info-fuse", "pod-fuse"

// of replaces the label of the first driver by that of another one.
func of(driver, text string) string {
	return strings.ReplaceAll(text, fmt.Sprintf("driver=%q", first), fmt.Sprintf("driver=%q", driver))
}

// Each alert fires where it should, alone, and not where it should not: nothing else is worth an
// alert then.
func TestAlerts(t *testing.T) {
	file, groups := ruleFile(t)
	untested, mentioned := map[string]bool{}, map[string]map[string]bool{}
	for _, g := range groups {
		for _, r := range g.Rules {
			mentioned[r.Alert] = labelsIn(r.Annotations["summary"] + r.Annotations["description"])
			if !labelsIn(r.Annotations["summary"])["instance"] || r.Annotations["description"] == "" {
				t.Errorf("%s does not say of which node and what to do: %v", r.Alert, r.Annotations)
			}
			if untested[r.Alert] {
				t.Errorf("there are two alerts %s", r.Alert)
			}
			untested[r.Alert] = true
		}
	}
	test := func(name, alert, driver string, c moment, fires bool) {
		t.Run(fmt.Sprintf("%s/%s/fires %v, %s", alert, driver, fires, name), func(t *testing.T) {
			t.Parallel()
			var queries []query
			var names []string
			if fires {
				names = append([]string{alert}, c.with...)
				named := fmt.Sprintf(",alertname=%q", names[0])
				queries = append(queries, are("severity", named, c.at, c.severity), are("instance", named, c.at, "10.0.0.7:9808"))
				for label := range mentioned[names[0]] { // else the text has a hole
					queries = append(queries, are(label, fmt.Sprintf(`%s,%s=""`, named, label), c.at))
				}
			}
			queries = append(queries, are("alertname", "", c.at, names...))
			promtool(t, file, of(driver, merge(healthy(driver), c.series)), queries...)
		})
	}
	for _, c := range cases {
		drivers := []string{first, second}
		if strings.HasPrefix(c.alert, "PodFuse") {
			drivers = drivers[1:]
		}
		if len(c.fires) == 0 || len(c.doesNot) == 0 {
			t.Errorf("%s has no case in which it fires, or none in which it does not", c.alert)
		}
		if !untested[c.alert] {
			t.Errorf("there is no alert %s, or it is tested twice", c.alert)
		}
		delete(untested, c.alert)
		for _, driver := range drivers {
			for what, m := range c.fires {
				test(what, c.alert, driver, m, true)
			}
			for what, m := range c.doesNot {
				test(what, c.alert, driver, m, false)
			}
		}
	}
	for name := range untested {
		t.Errorf("nothing tests alert %s", name)
	}
}

var labelIn = regexp.MustCompile(`\$labels\.(\w+)`)

// labelsIn are the labels that a text is to be completed with.
func labelsIn(text string) map[string]bool {
	all := map[string]bool{}
	for _, found := range labelIn.FindAllStringSubmatch(text, -1) {
		all[found[1]] = true
	}
	return all
}

// A user who mistypes an option, and a kubelet that tries for hours, alert nobody.
func TestAMistypedOptionAlertsNobody(t *testing.T) {
	file, _ := ruleFile(t)
	const failing = `
		fuse_driver_callouts_total{callout="mount",outcome="failure"} 0+1x240
		fuse_driver_callouts_total{callout="mount",outcome="success"} 3x240
		fuse_driver_request_errors_total{error="ENOENT"} 0+7x240
		fuse_driver_request_errors_total{error="EROFS"} 0+7x240`
	var queries []query
	for at := 10 * minute; at <= 240*minute; at += 46 * minute {
		queries = append(queries, are("alertname", "", at))
	}
	for _, driver := range []string{first, second} {
		promtool(t, file, of(driver, merge(healthy(driver), failing)), queries...)
	}
}

// Severities are two, and mean what docs/monitoring.md says.
func TestSeverities(t *testing.T) {
	_, groups := ruleFile(t)
	for _, g := range groups {
		for _, r := range g.Rules {
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s has severity %q", r.Alert, s)
			}
		}
	}
}

// An alert leads to a heading of the documents, by the name that the heading has on the web.
func TestRunbooks(t *testing.T) {
	_, groups := ruleFile(t)
	content, err := os.ReadFile("../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(content), -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		headings[strings.ReplaceAll(name, " ", "-")] = true
	}
	const document = "https://example.com/pod-info-fuse/docs/troubleshooting.md#"
	for _, g := range groups {
		for _, r := range g.Rules {
			heading, found := strings.CutPrefix(r.Annotations["runbook_url"], document)
			if !found || !headings[heading] {
				t.Errorf("%s leads to %q, which is no heading of docs/troubleshooting.md", r.Alert, r.Annotations["runbook_url"])
			}
		}
	}
}
