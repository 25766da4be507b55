//go:build cluster

package cluster

import (
	"testing"
	"time"
)

// Both processes of the daemon are killed at once. The installer may not mount:
// the kubelet heals, at its next volume operation.
func testLoss(t *testing.T) { lose(t, 3*time.Minute) }

// lose checks that pods that run can read again within the limit, and says how long that took. One
// of them has users of its own: its mount of the volume is id-mapped, and belongs to its user
// namespace.
func lose(t *testing.T, limit time.Duration) {
	t.Helper()
	users := newPod("loss-users", flexVolume(driverName), stays...)
	users["spec"].(object)["hostUsers"] = false
	pods := runPods(t, newPod("loss", flexVolume(driverName), stays...), users)
	for _, p := range pods {
		p.checkFiles(t, infoDir)
	}
	was, err := installed.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if err := was.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		t.Logf("%s, which runs, could read again %v after both processes were killed", p.name, p.reads(t, limit).Round(time.Millisecond))
		p.checkFiles(t, infoDir)
		if restarts := p.field(t, ".status.containerStatuses[0].restartCount"); restarts != "0" {
			t.Errorf("%s was restarted %s times", p.name, restarts)
		}
	}
	if now, err := installed.Pair(was.Active, was.Standby); err != nil {
		t.Errorf("the daemon was %+v, and is %+v: %v", was, now, err)
	}
}
