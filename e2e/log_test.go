//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// containerLog is what a container has printed, in lines as the kubelet keeps
// them: the time, the stream, a flag, and what the container wrote. A container
// that was restarted has a file for each time.
func (p *testPod) containerLog(t *testing.T, container string) (lines []string) {
	t.Helper()
	return p.containerLogs(t, container, "*")
}

// containerLogs is that of the times that a pattern matches, of which the first is 0. The kubelet
// keeps two.
func (p *testPod) containerLogs(t *testing.T, container, times string) (lines []string) {
	t.Helper()
	dir := fmt.Sprintf("default_%s-%s_%s", p.Metadata.Name, nodeName, p.uid)
	paths, err := filepath.Glob(filepath.Join(p.node.podLogs(), dir, container, times+".log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines = slices.AppendSeq(lines, strings.Lines(string(content)))
	}
	return lines
}
