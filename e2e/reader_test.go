//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkReader checks a PID that a process in a container has read from the
// volume. The process still runs, and knows its own PID in the container: that
// and its PID namespace identify it in the host's /proc, without the driver.
func (p *testPod) checkReader(t *testing.T, container, read, own string) {
	t.Helper()
	status := procStatus(t, read)
	if status["Tgid"] != read {
		t.Errorf("the reader got %s, which is a thread of the process %s", read, status["Tgid"])
	}
	seen := strings.Fields(status["NSpid"])
	if len(seen) < 2 || seen[len(seen)-1] != own {
		t.Errorf("the reader got %s, which has the PIDs %v (host ... container), but says that it is %s in the container", read, seen, own)
	}
	if readers, containers := pidNamespace(t, read), pidNamespace(t, p.init(t, container)); readers != containers {
		t.Errorf("the reader got %s, which is in %s and not in the container's %s", read, readers, containers)
	}
}

// init is the PID, in the host, of a container's first process.
func (p *testPod) init(t *testing.T, container string) string {
	t.Helper()
	pid, err := p.findInit(container)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// findInit is the same for a container that may not run now.
func (p *testPod) findInit(container string) (pid string, err error) {
	id, err := p.container(container)
	if err != nil {
		return "", err
	}
	table, err := p.node.Ctr("tasks", "list")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); fields[0] == id {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("containerd does not list the container %s of %s:\n%s", container, p.Metadata.Name, table)
}

// procStatus is /proc/PID/status.
func procStatus(t *testing.T, pid string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		t.Fatalf("the reader got the PID %q, which the host does not have: %v", pid, err)
	}
	status := make(map[string]string)
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	return status
}

func pidNamespace(t *testing.T, pid string) string {
	t.Helper()
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%s/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	return namespace
}
