//go:build cluster

package cluster

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// A pod is one of the tests', in the namespace default or, as it says, in another.
type pod struct{ name, namespace string }

// podOf is the pod that an object defines.
func podOf(definition object) pod {
	metadata := definition["metadata"].(object)
	namespace, _ := metadata["namespace"].(string)
	return pod{metadata["name"].(string), cmp.Or(namespace, "default")}
}

// runPod makes a pod and waits until its container runs.
func runPod(t *testing.T, definition object) pod {
	t.Helper()
	return runPods(t, definition)[0]
}

// runPods makes pods, and then waits for each.
func runPods(t *testing.T, definitions ...object) (pods []pod) {
	t.Helper()
	create(t, definitions...)
	for _, definition := range definitions {
		p := podOf(definition)
		p.wait(t)
		pods = append(pods, p)
	}
	return pods
}

// wait waits until the pod's container runs.
func (p pod) wait(t *testing.T) {
	t.Helper()
	if _, err := p.kubectl("wait", "--for=condition=Ready", "--timeout=4m", "pod/"+p.name); err != nil {
		events, _ := p.kubectl("get", "events", "--field-selector", "involvedObject.name="+p.name)
		log, _ := p.kubectl("logs", p.name, "--all-containers", "--prefix", "--tail=10")
		t.Fatalf("%v\n%s\n%s", err, events, log)
	}
}

// kubectl is a call in the pod's namespace.
func (p pod) kubectl(args ...string) (string, error) {
	return testCluster.kubectl(append([]string{"-n", p.namespace}, args...)...)
}

// field is a field of the pod's, as a JSONPath says it.
func (p pod) field(t *testing.T, path string) string {
	t.Helper()
	return kubectl(t, "-n", p.namespace, "get", "pod", p.name, "-o", "jsonpath={"+path+"}")
}

// exec runs a command in the pod's container.
func (p pod) exec(command ...string) (string, error) {
	return p.kubectl(append([]string{"exec", p.name, "--"}, command...)...)
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
	pid, err := processOf(p.field(t, ".status.containerStatuses[0].containerID"))
	if err != nil {
		t.Fatalf("the pod %s: %v", p.name, err)
	}
	return pid
}

// processOf is the PID, on the host, of the first process of a container, whose id is as the
// kubelet says it.
func processOf(container string) (string, error) {
	id := strings.TrimPrefix(container, "containerd://")
	table, err := testCluster.Ctr("tasks", "list")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); fields[0] == id {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("containerd does not list the container %q:\n%s", id, table)
}

// stays is a container's command that does nothing. Its first process has to ask
// for SIGTERM, or it gets none.
var stays = []string{"sh", "-c", "trap exit TERM; sleep 100000 & wait"}
