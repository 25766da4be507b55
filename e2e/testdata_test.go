//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A recording is a file of testdata/kubelet-VERSION: one call of the driver.
type recording struct {
	Argv    []string `json:"argv"`
	Comment string   `json:"comment"`
}

// checkTestdata compares a call with its recording, after normal has taken out
// what is this node's alone. With UPDATE_TESTDATA=1 it makes the recording.
func checkTestdata(t *testing.T, file, comment string, argv []string, normal *strings.Replacer) {
	t.Helper()
	for i := range argv {
		argv[i] = normal.Replace(argv[i])
	}
	path := filepath.Join(testdataDir(t), file+".json")
	if os.Getenv("UPDATE_TESTDATA") == "1" {
		writeRecording(t, path, recording{argv, comment})
		return
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	var recorded recording
	if err := json.Unmarshal(content, &recorded); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	if !slices.Equal(argv, recorded.Argv) {
		t.Errorf("%s:\n the kubelet sent %q\nrecorded is        %q", path, argv, recorded.Argv)
	}
}

func writeRecording(t *testing.T, path string, r recording) {
	t.Helper()
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// testdataDir is of the newest recorded kubelet that is no newer than the one that runs: what the
// kubelet sends has not changed since, or this fails. A recording that is being made is for the
// kubelet that runs.
func testdataDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(kubeletBinary, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", kubeletBinary, err)
	}
	runs := minor(string(out))
	if runs == 0 {
		t.Fatalf("%s --version: %q has no version", kubeletBinary, out)
	}
	const dir = "../testdata/kubelet-v1."
	if os.Getenv("UPDATE_TESTDATA") == "1" {
		return dir + strconv.Itoa(runs)
	}
	recorded, err := filepath.Glob(dir + "*")
	if err != nil || len(recorded) == 0 {
		t.Fatalf("%s*: there are no recordings: %v", dir, err)
	}
	// The oldest stands in for kubelets that are older still.
	nearest := slices.MinFunc(recorded, func(a, b string) int { return minor(a) - minor(b) })
	for _, candidate := range recorded {
		if m := minor(candidate); m <= runs && m > minor(nearest) {
			nearest = candidate
		}
	}
	return nearest
}

var versionOfKubernetes = regexp.MustCompile(`v1\.(\d+)`)

// minor is 34 of a text with v1.34 in it, and 0 of one without a version.
func minor(text string) int {
	match := versionOfKubernetes.FindStringSubmatch(text)
	if match == nil {
		return 0
	}
	n, _ := strconv.Atoi(match[1])
	return n
}
