//go:build cluster

package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// documented are the calls of kubectl in a section of a document that are to be typed as they are.
func documented(t *testing.T, file, heading string) (commands []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, file))
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "#") {
			inside = strings.TrimSpace(strings.TrimLeft(line, "#")) == heading
		}
		if command, is := strings.CutPrefix(line, "    kubectl "); inside && is {
			commands = append(commands, "kubectl "+strings.TrimSpace(command))
		}
	}
	if len(commands) == 0 {
		t.Fatalf("%s has no calls of kubectl below %q", file, heading)
	}
	return commands
}

// runDocumented runs commands one after the other as a user of `make cluster` would, and returns
// what the last one prints.
func runDocumented(t *testing.T, commands ...string) (printed string) {
	t.Helper()
	directory, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Dir, cmd.Env = directory, append(os.Environ(), nodeEnvironment(directory)...)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			state, _ := testCluster.kubectl("get", "pods,events", "-A")
			t.Fatalf("%s: %v\n%s\n%s", command, err, out, state)
		}
		printed = string(out)
	}
	return printed
}
