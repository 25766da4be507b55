//go:build mutate

// Package mutants takes away single steps of call-outs, the mounter and the installer, or has them
// in another order, and requires a test to fail for each. Package pair does the same with all of its
// transitions, which make up one table of orders; here somebody has chosen what decides.
package mutants

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mutant is a change of the product.
type mutant struct {
	why   string   // what somebody would notice
	test  string   // that has to fail, of the file's package; after a slash, the subtests
	file  string   // in the repository
	edits []string // a text that the file has once, what takes its place, another text, and so on
}

// impatient is a change of the tests themselves: what never happens is not waited for as long.
var impatient = map[string][]string{
	"podfuse/mounter/world_test.go": {"hang = time.Minute", "hang = 15 * time.Second"},
	"internal/testnode/wait.go":     {"Forever = 2 * time.Minute", "Forever = 20 * time.Second"},
}

func TestEveryMutantFails(t *testing.T) {
	tests := map[string][]string{}
	for _, m := range mutants {
		name, _, _ := strings.Cut(m.test, "/")
		tests[path.Dir(m.file)] = append(tests[path.Dir(m.file)], name)
	}
	for dir, names := range tests {
		slices.Sort(names)
		if output, err := run(t, dir, "("+strings.Join(slices.Compact(names), "|")+")", nil); err != nil {
			t.Fatalf("without a mutant: %v: %s", err, output)
		}
	}
	for i, m := range mutants {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Log(m.test, "of", m.file, "without which", m.why)
			name, _, _ := strings.Cut(m.test, "/")
			// One that cannot be built, or does not find its test, has not failed.
			if output, err := run(t, path.Dir(m.file), m.test, &m); err == nil || !strings.Contains(output, "--- FAIL: "+name) {
				t.Errorf("%q becomes %q, and it does not fail: %v: %s", m.edits[0], m.edits[1], err, output)
			}
		})
	}
}

// run runs tests of a package, of the product or of a mutant. The tests build the product, too.
func run(t *testing.T, dir, tests string, m *mutant) (output string, err error) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	edits := maps.Clone(impatient)
	if m != nil {
		edits[m.file] = m.edits
	}
	replace := map[string]string{}
	for file, all := range edits {
		file = filepath.Join(root, file)
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(source)
		for edit := range slices.Chunk(all, 2) {
			if n := strings.Count(text, edit[0]); n != 1 {
				t.Fatalf("%s has %q %d times", file, edit[0], n)
			}
			text = strings.Replace(text, edit[0], edit[1], 1)
		}
		replace[file] = filepath.Join(t.TempDir(), path.Base(file))
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay := filepath.Join(t.TempDir(), "overlay")
	list, _ := json.Marshal(map[string]any{"Replace": replace})
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	name, subtests, _ := strings.Cut(tests, "/")
	command := exec.Command("go", "test", "-vet=off", "-count=1", "-failfast", "-run", "^"+name+"$/"+subtests, "./"+dir)
	command.Dir = root
	command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	all, err := command.CombinedOutput()
	return string(all), err
}
