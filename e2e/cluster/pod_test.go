//go:build cluster

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// A pod is one of the tests', in the namespace default.
type pod struct{ name string }

// runPod makes a pod and waits until its container runs.
func runPod(t *testing.T, definition object) pod {
	t.Helper()
	create(t, definition)
	return waitForPod(t, definition["metadata"].(object)["name"].(string))
}

func waitForPod(t *testing.T, name string) pod {
	t.Helper()
	if _, err := testCluster.kubectl("wait", "--for=condition=Ready", "--timeout=2m", "pod/"+name); err != nil {
		events, _ := testCluster.kubectl("get", "events", "--field-selector", "involvedObject.name="+name)
		t.Fatalf("%v\n%s", err, events)
	}
	return pod{name}
}

// field is a field of the pod's, as a JSONPath says it.
func (p pod) field(t *testing.T, path string) string {
	t.Helper()
	return kubectl(t, "get", "pod", p.name, "-o", "jsonpath={"+path+"}")
}

// exec runs a command in the pod's container.
func (p pod) exec(command ...string) (string, error) {
	return testCluster.kubectl(append([]string{"exec", p.name, "--"}, command...)...)
}

// checkFiles checks what the pod reads in its volume at a directory.
func (p pod) checkFiles(t *testing.T, dir string) {
	t.Helper()
	want := map[string]string{"pod.uid": p.field(t, ".metadata.uid") + "\n", "pod.nodename": hostName + "\n"}
	for file, want := range want {
		if got, err := p.exec("cat", dir+"/"+file); err != nil || got != want {
			t.Errorf("%s in the pod %s: %q, %v, want %q", file, p.name, got, err, want)
		}
	}
	// A PID on the host is none of the container's, but the reader has both.
	pids, err := p.exec("sh", "-c", `read -r pid <"$0" && echo "$pid $$"`, dir+"/pod")
	var host, own int
	if _, scanned := fmt.Sscan(pids, &host, &own); err != nil || scanned != nil || host <= own {
		t.Errorf("pod in the pod %s: %q, %v, want a PID on the host, and the one in the container", p.name, pids, err)
	}
}

// reads waits until the pod can read its UID, and returns how long that took.
func (p pod) reads(t *testing.T, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	err := harness.Eventually(limit, func() error {
		_, err := p.exec("cat", infoDir+"/pod.uid")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// hostPID is the PID, on the host, of the container's first process.
func (p pod) hostPID(t *testing.T) string {
	t.Helper()
	id := strings.TrimPrefix(p.field(t, ".status.containerStatuses[0].containerID"), "containerd://")
	table, err := testCluster.Ctr("tasks", "list")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); fields[0] == id {
			return fields[1]
		}
	}
	t.Fatalf("containerd does not list the container of the pod %s:\n%s", p.name, table)
	return ""
}

// stays is a container's command that does nothing. Its first process has to ask
// for SIGTERM, or it gets none.
var stays = []string{"sh", "-c", "trap exit TERM; sleep 100000 & wait"}
