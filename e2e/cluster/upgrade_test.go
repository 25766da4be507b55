//go:build cluster

package cluster

import (
	"fmt"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// A new image takes over on a node where a pod reads all the time.
func testUpgrade(t *testing.T) {
	was, err := installed.Pair()
	if err != nil {
		t.Fatal(err)
	}
	r := runReader(t, "upgrade-reader", driverName)
	r.goesOn(t)
	version := versionOf(t, nextBinary)
	kubectl(t, "-n", namespace, "set", "image", daemonSet, "installer="+productImage+":"+version)
	rolledOut(t)
	if now := versionOf(t, installed.Executable()); now != version {
		t.Errorf("the image %s was rolled out, and the driver on the node is %s", version, now)
	}

	// The kubelet looks at the driver again for this pod's volume, and calls init.
	began := time.Now()
	runPod(t, newPod("after-upgrade", flexVolume(driverName), stays...)).checkFiles(t, infoDir)
	err = harness.Eventually(startLimit, func() error {
		status, err := installed.Status()
		if err != nil {
			return err
		}
		if now := status.Daemon; now.Active.Version != version || now.Standby.Version != version {
			return fmt.Errorf("version %s was rolled out, and the daemon is %+v", version, now)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the new version served %v after a new pod was made", time.Since(began).Round(time.Millisecond))
	if now, err := installed.Pair(was.Active, was.Standby); err != nil {
		t.Errorf("the daemon was %+v, now it is %+v: %v", was, now, err)
	}
	r.goesOn(t)
	m := scrape(t, firstPort)
	for _, want := range []string{
		fmt.Sprintf(`fuse_driver_installer_info{driver="pod-info-fuse",name="%s",version="%s"}`, driverName, version),
		fmt.Sprintf(`fuse_driver_process_info{driver="pod-info-fuse",role="active",version="%s"}`, version),
		fmt.Sprintf(`fuse_driver_process_info{driver="pod-info-fuse",role="standby",version="%s"}`, version),
		`fuse_driver_mount{driver="pod-info-fuse",state="ok"}`,
		`fuse_driver_volumes{driver="pod-info-fuse",state="ok"}`,
		`fuse_driver_takeovers_total{cause="upgrade",driver="pod-info-fuse"}`,
	} {
		if m[want] == 0 {
			t.Errorf("the metrics do not have %s, they have %v", want, m)
		}
	}
}
