//go:build e2e

package e2e

import (
	"fmt"
	"testing"
)

// On a node that comes up, the kubelet mounts many volumes at the same time, and
// each call finds no daemon.
func TestManyAtOnce(t *testing.T) {
	if err := testNode.driver(driverName).stop(); err != nil {
		t.Fatal(err)
	}
	var pods []*testPod
	for i := range 8 {
		m := newManifest(fmt.Sprintf("many-%d", i))
		addSecondVolume(m)
		pods = append(pods, createPod(t, m))
	}
	for _, p := range pods {
		p.waitFor(t, "main")
		p.checkFiles(t, "main", infoDir)
		p.checkFiles(t, "main", secondDir)
	}
	// All at once, too.
	for _, p := range pods {
		if err := p.remove(); err != nil {
			t.Error(err)
		}
	}
}
