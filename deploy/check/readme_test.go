package check

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	jsonyaml "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the values into the chart's README")

// The README of the chart has what values.yaml says of each value, below a text of its own.
func TestTheReadmeHasTheValues(t *testing.T) {
	const file, heading = chart + "/README.md", "\n## Values\n"
	content := string(read(t, file))
	text, _, _ := strings.Cut(content, heading)
	var values yaml.Node
	if err := yaml.Unmarshal(read(t, chart+"/values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	rows := describe(t, "", values.Content[0])
	for path := range leaves(t) {
		if !strings.Contains(rows, "| `"+path+"` |") {
			t.Errorf("value %s has no row", path)
		}
	}
	want := text + heading + "\n| value | default | |\n|---|---|---|\n" + rows
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if content != want {
		t.Errorf("%s is not of values.yaml: run make manifest", file)
	}
}

// describe returns a row for each value of a mapping, and for each mapping with a comment.
func describe(t *testing.T, prefix string, mapping *yaml.Node) (rows string) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := prefix + key.Value
		var said []string
		for _, comment := range []string{key.HeadComment, key.LineComment, value.HeadComment, value.LineComment} {
			for line := range strings.Lines(comment) {
				said = append(said, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
			}
		}
		text := strings.ReplaceAll(strings.Join(said, " "), "|", `\|`)
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && !isOfKubernetes(key.Value) {
			if text != "" {
				rows += fmt.Sprintf("| `%s` | | %s |\n", path, text)
			}
			rows += describe(t, path+".", value)
			continue
		}
		plain, err := yaml.Marshal(value)
		if err == nil {
			plain, err = jsonyaml.YAMLToJSON(plain)
		}
		if err != nil {
			t.Fatal(err)
		}
		rows += fmt.Sprintf("| `%s` | `%s` | %s |\n", path, plain, text)
	}
	return rows
}
