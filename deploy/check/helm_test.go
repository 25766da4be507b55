package check

import (
	"bytes"
	"os/exec"
	"testing"
)

const (
	helm  = "../../bin/helm"
	chart = "../chart/pod-info-fuse"
)

// run executes Helm, and returns what it prints.
func run(args ...string) (stdout, stderr string, err error) {
	var out, errors bytes.Buffer
	cmd := exec.Command(helm, args...)
	cmd.Stdout, cmd.Stderr = &out, &errors
	err = cmd.Run()
	return out.String(), errors.String(), err
}

// render is the chart with some flags.
func render(t *testing.T, flags ...string) string {
	t.Helper()
	stdout, stderr, err := run(append([]string{"template", "pod-info-fuse", chart, "--namespace", "pod-info-fuse"}, flags...)...)
	if err != nil {
		t.Fatalf("helm template %v: %v: %s", flags, err, stderr)
	}
	return stdout
}

func TestLint(t *testing.T) {
	everything := []string{"--values", "testdata/everything.yaml"}
	for _, flags := range [][]string{nil, everything} {
		stdout, stderr, err := run(append([]string{"lint", "--strict", chart}, flags...)...)
		if err != nil {
			t.Errorf("helm lint %v: %v: %s%s", flags, err, stdout, stderr)
		}
	}
	decode(t, []byte(render(t, everything...)), "PodMonitor", "PrometheusRule", "PodSecurityPolicy")
}
