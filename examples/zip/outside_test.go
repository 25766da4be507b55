package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// The example builds as a module outside of this one, and its go.sum, which `go mod tidy` writes,
// names nothing of the CSI plugin, of the kubelet, or of the tests that read metrics.
func TestAModuleOutsideNeedsLittle(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// Its test, because a driver's own tests import survivetest.
	for _, name := range []string{"main.go", "zip_test.go"} {
		source, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), source, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	module := fmt.Appendf(nil, "module example.org/zip\n\ngo 1.26.0\n\nrequire example.com/pod-info-fuse v0.0.0\n\n"+
		"replace example.com/pod-info-fuse => %s\n", here)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), module, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", os.DevNull, "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^\S+`).FindAllString(string(sums), -1) {
		modules[line] = true
	}
	if !modules["github.com/hanwen/go-fuse/v2"] {
		t.Error("go.sum does not name what the example stands on: is it read at all?")
	}
	unwanted := regexp.MustCompile(`^(google\.golang\.org/(grpc|protobuf)|k8s\.io/|github\.com/prometheus/)`)
	for module := range modules {
		if unwanted.MatchString(module) {
			t.Errorf("go.sum names %s", module)
		}
	}
}
