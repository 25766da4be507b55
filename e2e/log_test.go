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

// log is the path of a server's log.
func (n *node) log(server string) string { return filepath.Join(n.dir, server+".log") }

// logLines are the lines of a server's log that have all the words.
func (n *node) logLines(server string, words ...string) ([]string, error) {
	content, err := os.ReadFile(n.log(server))
	if err != nil {
		return nil, err
	}
	var found []string
lines:
	for line := range strings.Lines(string(content)) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found, nil
}

// printLogs prints the ends of the servers' logs, for a run that failed.
func (n *node) printLogs() {
	for _, server := range []string{"containerd", "kubelet"} {
		lines, err := n.logLines(server)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		fmt.Fprintf(os.Stderr, "--- the end of %s's log\n%s", server, strings.Join(last(lines, 60), ""))
	}
}

// containerLog is what a container has printed, in lines as the kubelet keeps
// them: the time, the stream, a flag, and what the container wrote. A container
// that was restarted has a file for each time.
func (p *testPod) containerLog(t *testing.T, container string) (lines []string) {
	t.Helper()
	dir := fmt.Sprintf("default_%s-%s_%s", p.Metadata.Name, nodeName, p.uid)
	paths, err := filepath.Glob(filepath.Join(p.node.podLogs(), dir, container, "*.log"))
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

func last(lines []string, count int) []string {
	return lines[max(0, len(lines)-count):]
}
