//go:build cluster

package cluster

import (
	"fmt"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// The chart's values are facts in pods, also in those that run when one changes.
func testFacts(t *testing.T) {
	p := runPod(t, newPod("facts", flexVolume(driverName), stays...))
	for fact, want := range map[string]string{"rack": "r12", "name": nodeName + "\n", "app": "pod-info-fuse"} {
		if got, err := p.exec("cat", infoDir+"/node."+fact); err != nil || got != want {
			t.Errorf("node.%s in the pod %s: %q, %v, want %q", fact, p.name, got, err, want)
		}
	}
	helm(t, "upgrade", "pod-info-fuse", chart, "--reuse-values", "--set", "facts.rack=r13")
	began := time.Now()
	// The kubelet takes its time to bring the files of a ConfigMap up to date.
	err := harness.Eventually(5*time.Minute, func() error {
		rack, err := p.exec("cat", infoDir+"/node.rack")
		if err == nil && rack != "r13" {
			err = fmt.Errorf("node.rack in the pod %s is %q, want r13", p.name, rack)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a pod that runs read the new content of a fact %v after helm upgrade", time.Since(began).Round(time.Second))
}
