//go:build e2e

package e2e

import "testing"

// On a node that comes up, the kubelet mounts many volumes at the same time, and
// each call finds no daemon.
func TestManyAtOnce(t *testing.T) {
	if err := testNode.driver(driverName).stop(); err != nil {
		t.Fatal(err)
	}
	var pods []*testPod
	for range 8 {
		m := newManifest("many")
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
