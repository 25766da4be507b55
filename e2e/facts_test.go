//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// factsDir is the directory of facts of the driver that is called driverName.
func (n *node) factsDir() string { return filepath.Join(n.Dir, "facts.d") }

// configureDriver makes the directory, where the daemon's user can reach it, and
// returns the path of a configuration that names it, and a log.
func (n *node) configureDriver() (string, error) {
	if err := os.Chmod(n.Dir, 0o711); err != nil {
		return "", err
	}
	if err := os.Mkdir(n.factsDir(), 0o755); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]string{"factsDir": n.factsDir(), "log": n.Log(driverLog)})
	if err != nil {
		return "", err
	}
	path := filepath.Join(n.Dir, "driver-config.json")
	return path, os.WriteFile(path, text, 0o644)
}

// An operator adds, replaces and removes a fact while a pod runs.
func TestFacts(t *testing.T) {
	m := newManifest("facts")
	m.Spec.Volumes[0].FlexVolume.Options = map[string]string{"facts": "pod.name,pod.namespace"}
	p := runPod(t, m)
	for fact, want := range map[string]string{"pod.name": p.Metadata.Name + "-" + nodeName + "\n", "pod.namespace": "default\n"} {
		if got := p.mustExec(t, "main", "cat", "/mnt/pod-info/"+fact); got != want {
			t.Errorf("%s is %q, want %q", fact, got, want)
		}
	}
	const inPod = "/mnt/pod-info/node.zone"
	onNode := filepath.Join(testNode.factsDir(), "zone")
	t.Cleanup(func() { os.Remove(onNode) })
	put := func(content string) {
		t.Helper()
		hidden := filepath.Join(testNode.factsDir(), ".zone")
		if err := os.WriteFile(hidden, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(hidden, onNode); err != nil {
			t.Fatal(err)
		}
	}

	for _, content := range []string{"eu-1\nrack 1\n", "eu-2\nrack 2, which was replaced\n"} {
		put(content)
		if got := p.mustExec(t, "main", "cat", inPod); got != content {
			t.Errorf("the fact is %q, want %q", got, content)
		}
		if got := p.mustExec(t, "main", "ls", "/mnt/pod-info"); !strings.Contains(got, "node.zone\n") {
			t.Errorf("the fact is not listed: %q", got)
		}
	}

	// The shell reads the first line byte by byte, and the rest when it is gone.
	reader := p.hold(t, "main", "sh", "-c", "exec <"+inPod+"; read first; echo $first; while [ -e "+inPod+" ]; do sleep 0.1; done; cat; echo end")
	if got := reader.line(); got != "eu-2" {
		t.Errorf("the first line is %q", got)
	}
	if err := os.Remove(onNode); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rack 2, which was replaced", "end"} {
		if got := reader.line(); got != want {
			t.Errorf("the fact was removed, and the next line is %q, want %q", got, want)
		}
	}
	if out, err := p.exec(t, "main", "cat", inPod); err == nil || !strings.Contains(out, "No such file") {
		t.Errorf("the fact was removed, and cat gives %v: %q", err, out)
	}
	if err := p.delete(); err != nil {
		t.Error(err)
	}
}
