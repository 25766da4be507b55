package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	schema "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/promql/parser"
)

// told is a row of a table of metrics: its labels, and the values of those that list all.
type told struct{ labels map[string][]string }

var (
	row   = regexp.MustCompile("^\\| `([a-z_]+)` \\|([^|]*)\\| (.*) \\|$")
	label = regexp.MustCompile("`([^`]+)`(: ((`[^`]+`(, )?)+)( \\.\\.\\.)?)?")
	word  = regexp.MustCompile("`([^`]+)`")
)

// tables are the metrics that the drivers tell, by their full names: those of the tables in
// docs/installer.md.
func tables(t *testing.T) map[string]told {
	t.Helper()
	content, err := os.ReadFile("../../../docs/installer.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n## Metrics\n")
	if !found {
		t.Fatal("docs/installer.md has no tables of metrics")
	}
	all := map[string]told{}
	for line := range strings.Lines(section) {
		part := row.FindStringSubmatch(strings.TrimSpace(line))
		if part == nil {
			continue
		}
		m := told{map[string][]string{"driver": {first, second}}}
		for _, l := range label.FindAllStringSubmatch(part[2], -1) {
			m.labels[l[1]] = nil
			for _, value := range word.FindAllStringSubmatch(l[3], -1) {
				if l[6] == "" { // else there are more
					m.labels[l[1]] = append(m.labels[l[1]], value[1])
				}
			}
		}
		name, suffixes := "fuse_driver_"+part[1], []string{""}
		if strings.HasPrefix(part[3], "histogram") {
			suffixes = []string{"_bucket", "_sum", "_count"}
		}
		for _, suffix := range suffixes {
			all[name+suffix] = m
		}
	}
	if got := all["fuse_driver_volumes"].labels["state"]; !slices.Equal(got, []string{"ok", "dead", "not_mounted", "foreign", "unknown", "unrecorded", "lingering"}) || len(all) < 30 {
		t.Fatalf("the tables are not understood: %d metrics, %q", len(all), got)
	}
	return all
}

// targets are labels that Prometheus adds.
var targets = []string{"job", "instance", "le"}

// check parses an expression, and finds metrics, labels and values in it that no driver tells.
func check(t *testing.T, all map[string]told, where, expression string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v: %s", where, err, expression)
		return
	}
	selectors := 0
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, is := node.(*parser.VectorSelector)
		if !is {
			return nil
		}
		selectors++
		metric, known := all[selector.Name]
		if !known && selector.Name != "up" {
			t.Errorf("%s asks for %s, which nobody tells", where, selector.Name)
			return nil
		}
		for _, m := range selector.LabelMatchers {
			values, has := metric.labels[m.Name]
			switch {
			case m.Name == "__name__" || slices.Contains(targets, m.Name):
			case !has:
				t.Errorf("%s asks for label %s of %s, which has none such", where, m.Name, selector.Name)
			case len(values) > 0:
				for _, value := range strings.Split(m.Value, "|") {
					if !slices.Contains(values, value) {
						t.Errorf("%s asks for %s of %s, which is never %q", where, m.Name, selector.Name, value)
					}
				}
			}
		}
		return nil
	})
	if selectors == 0 {
		t.Errorf("%s asks for nothing: %s", where, expression)
	}
}

func TestAlertsAskForWhatIsTold(t *testing.T) {
	all := tables(t)
	_, groups := ruleFile(t)
	for _, g := range groups {
		for _, r := range g.Rules {
			check(t, all, r.Alert, r.Expr.String())
		}
	}
}

// dashboard is what is used of Grafana's JSON model.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Datasource  *struct{ Type, UID string }
	Targets     []struct{ RefID, Expr string }
}

type variable struct{ Name string }

// Grafana's own types, which its schema is made to, have all of its fields, and find nothing amiss.
func TestDashboardIsOfGrafanasSchema(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	//lint:ignore SA1019 what Grafana reads from a file is of the classic model, which the newer one is not
	var d schema.Dashboard
	// It returns a list of errors, which may be empty.
	if err := d.UnmarshalJSONStrict(dashboardOf(t)); err != nil && err.Error() != "" {
		t.Error(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}

func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal(dashboardOf(t), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || len(d.UID) > 40 || d.Title == "" || d.SchemaVersion < 36 || len(d.Panels) < 10 {
		t.Errorf("the dashboard is %+v", d)
	}
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	all := tables(t)
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %q has number %d, as another one, or none", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if over := cells[[2]int{x, y}]; over != "" || x >= 24 {
					t.Fatalf("panel %q is over %q, or beside the page", p.Title, over)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if !slices.Contains([]string{"stat", "timeseries"}, p.Type) || p.Datasource == nil || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %q is %+v", p.Title, p)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.RefID == "" {
				t.Errorf("panel %q has two queries %q", p.Title, target.RefID)
			}
			refs[target.RefID] = true
			for _, v := range regexp.MustCompile(`\$\{?(\w+)\}?`).FindAllStringSubmatch(target.Expr, -1) {
				if !variables[v[1]] {
					t.Errorf("panel %q: there is no variable %s", p.Title, v[1])
				}
			}
			check(t, all, "panel "+p.Title, strings.NewReplacer("$driver", second, "$instance", ".*", "$__rate_interval", "5m").Replace(target.Expr))
		}
	}
}
