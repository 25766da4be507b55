//go:build cluster

package cluster

import (
	"testing"
	"time"
)

// Both processes of the daemon are killed at once. The installer may not mount:
// the kubelet heals, at its next volume operation.
func testLoss(t *testing.T) { lose(t, 3*time.Minute) }

// lose checks that a pod that runs can read again within the limit, and says how
// long that took.
func lose(t *testing.T, limit time.Duration) {
	t.Helper()
	p := runPod(t, newPod("loss", flexVolume(driverName), stays...))
	p.checkFiles(t, infoDir)
	was, err := installed.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if err := was.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Logf("a pod that runs could read again %v after both processes were killed", p.reads(t, limit).Round(time.Millisecond))
	p.checkFiles(t, infoDir)
	if now, err := installed.Pair(was.Active, was.Standby); err != nil {
		t.Errorf("the daemon was %+v, and is %+v: %v", was, now, err)
	}
	if restarts := p.field(t, ".status.containerStatuses[0].restartCount"); restarts != "0" {
		t.Errorf("the pod was restarted %s times", restarts)
	}
}
