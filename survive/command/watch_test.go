package command_test

import (
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestWatch(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	path := filepath.Join(dir, "pod.uid")
	for _, args := range [][]string{{"--keep-open"}, nil} {
		output, err := d.Command(append([]string{"watch", path, "--interval", "1ms", "--count", "3", "--exit-on-error"}, args...)...).CombinedOutput()
		if lines := strings.Count(string(output), testnode.PodUID+`\n" in `); err != nil || lines != 3 {
			t.Errorf("watch %q: %v:\n%s", args, err, output)
		}
	}
	output, err := d.Command("watch", dir+"/nothing", "--count", "5", "--interval", "1ms", "--exit-on-error").CombinedOutput()
	if err == nil || strings.Count(string(output), "error: ") != 1 {
		t.Errorf("watch of nothing: %v:\n%s", err, output)
	}
	if output, err := d.Command("watch", "--driver", d.Name, path).CombinedOutput(); err == nil || !strings.Contains(string(output), "unknown flag: --driver") {
		t.Errorf("watch of a driver: %v: %s", err, output)
	}
	if output, err := d.Command("watch", "--help").CombinedOutput(); err != nil || !strings.Contains(string(output), "pod-info-fuse watch [flags] FILE\n") {
		t.Errorf("watch --help: %v: %s", err, output)
	}
	output, err = d.Command("watch", dir+"/nothing", "--count", "5", "--interval", "1ms").CombinedOutput()
	if err != nil || strings.Count(string(output), "error: ") != 5 {
		t.Errorf("watch that goes on: %v:\n%s", err, output)
	}
}
