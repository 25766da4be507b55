package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Log is the path of a server's log.
func (n *Node) Log(server string) string { return filepath.Join(n.Dir, server+".log") }

// LogLines are the lines of a server's log that have all the words.
func (n *Node) LogLines(server string, words ...string) ([]string, error) {
	content, err := os.ReadFile(n.Log(server))
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

// PrintLogs prints the ends of servers' logs, for a run that failed.
func (n *Node) PrintLogs(servers ...string) {
	for _, server := range servers {
		lines, err := n.LogLines(server)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		fmt.Fprintf(os.Stderr, "--- the end of %s's log\n%s", server, strings.Join(Last(lines, 60), ""))
	}
}

// Last are the last lines.
func Last(lines []string, count int) []string {
	return lines[max(0, len(lines)-count):]
}
