//go:build mutate

// Package mutants takes away single steps of call-outs, the mounter and the installer, or has them
// in another order, and requires a test to fail for each. Package pair does the same with all of
// its transitions, which make up one table of orders; here somebody has chosen what decides.
package mutants

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/builds"
)

// mutant is a change of the product.
type mutant struct {
	why   string   // what somebody would notice
	test  string   // that has to fail, of the file's package; after a slash, the subtests
	file  string   // in the repository
	edits []string // a text that the file has once, what takes its place, another text, and so on
}

// impatient is a change of the tests themselves: what never happens is not waited for as long.
var impatient = []builds.Edit{
	{File: "podfuse/mounter/world_test.go", Old: "hang = time.Minute", New: "hang = 15 * time.Second"},
	{File: "internal/testnode/wait.go", Old: "Forever = 2 * time.Minute", New: "Forever = 20 * time.Second"},
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
	edits := slices.Clone(impatient)
	if m != nil {
		for edit := range slices.Chunk(m.edits, 2) {
			edits = append(edits, builds.Edit{File: m.file, Old: edit[0], New: edit[1]})
		}
	}
	overlay, err := builds.Overlay(t.TempDir(), "", edits...)
	if err != nil {
		t.Fatal(err)
	}
	name, subtests, _ := strings.Cut(tests, "/")
	command := exec.Command("go", "test", "-vet=off", "-count=1", "-failfast", "-run", "^"+name+"$/"+subtests, "./"+dir)
	command.Dir = "../.."
	command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	all, err := command.CombinedOutput()
	return string(all), err
}
