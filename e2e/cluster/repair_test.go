//go:build cluster

package cluster

import (
	"os"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// Somebody removes the driver from the node. A pod that reads does not notice,
// and new ones start.
func testRepair(t *testing.T) {
	r := runReader(t, "repair-reader", driverName)
	repairs := scrape(t, firstPort)[`fuse_driver_repairs_total{driver="pod-info-fuse"}`]
	if err := os.Remove(installed.Executable()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err := harness.Eventually(startLimit, func() error {
		_, err := os.Stat(installed.Executable())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the driver was back after %v", time.Since(began).Round(time.Millisecond))
	runPod(t, newPod("after-repair", flexVolume(driverName), stays...)).checkFiles(t, infoDir)
	r.goesOn(t)
	if now := scrape(t, firstPort)[`fuse_driver_repairs_total{driver="pod-info-fuse"}`]; now != repairs+1 {
		t.Errorf("repairs_total was %v, and after a repair it is %v", repairs, now)
	}
}
