//go:build systemd

package systemd

import (
	"strings"
	"testing"
	"time"
)

// Active and standby replace each other. A shutdown must not wait until they
// have had enough of that, which takes systemd 90 seconds.
func TestAShutdownWithVolumesMounted(t *testing.T) {
	onEach(t, func(t *testing.T, layout layout) {
		m := boot(t, layout)
		m.startService()
		m.served()
		took := m.off(3 * time.Minute)
		t.Logf("off after %v", took.Round(10*time.Millisecond))
		if took > 45*time.Second {
			t.Errorf("the machine took %v to shut down", took)
		}
	})
}

// The test of package cgroup that needs a systemd.
func TestTheScope(t *testing.T) {
	onEach(t, func(t *testing.T, layout layout) {
		m := boot(t, layout)
		output := m.must("systemd-run", "--pipe", "--wait", "--quiet", "/e2e/cgroup.test", "-test.v", "-test.run=^TestSystemdMakesAScope$")
		if !strings.Contains(output, "--- PASS: TestSystemdMakesAScope") {
			t.Error(output)
		}
	})
}
