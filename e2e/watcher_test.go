//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// newWatcher is a container that reads its own PID in the volume again and again
// and ends when that fails. The daemon is asked for each read: nothing of this
// file is cached.
func newWatcher(name string, flags ...string) *container {
	c := newContainer(name)
	c.Command = append([]string{"pod-info-fuse", "watch", infoDir + "/pod", "--interval", "2ms", "--exit-on-error"}, flags...)
	return c
}

// goesOn waits until a watcher has read some more.
func (p *testPod) goesOn(t *testing.T, watcher string) {
	t.Helper()
	before := len(p.containerLog(t, watcher))
	err := harness.Eventually(execLimit, func() error {
		if now := len(p.containerLog(t, watcher)); now < before+20 {
			return fmt.Errorf("%s had read %d times and has read %d times now", watcher, before, now)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// checkWatcher checks all that a watcher has read.
func (p *testPod) checkWatcher(t *testing.T, watcher string) {
	t.Helper()
	want := fmt.Sprintf(`Z "%s\n" in `, p.init(t, watcher))
	for _, line := range p.containerLog(t, watcher) {
		if !strings.Contains(line, want) {
			t.Errorf("%s printed %q, want %q in it", watcher, line, want)
		}
	}
}

// containers are the ids of the pod's containers. None of them was restarted.
func (p *testPod) containers(t *testing.T) map[string]string {
	t.Helper()
	known, err := p.ask()
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]string)
	for _, c := range known.Status.ContainerStatuses {
		ids[c.Name] = c.ContainerID
		if c.RestartCount > 0 {
			t.Errorf("container %s of the pod %s was restarted %d times", c.Name, p.Metadata.Name, c.RestartCount)
		}
	}
	return ids
}

// checkContainers checks that the pod's containers are the ones from before.
func (p *testPod) checkContainers(t *testing.T, before map[string]string) {
	t.Helper()
	if now := p.containers(t); !maps.Equal(now, before) {
		t.Errorf("the containers of the pod %s were %v, now they are %v", p.Metadata.Name, before, now)
	}
	for name := range before {
		p.init(t, name) // containerd knows of an end before the kubelet does
	}
}
