//go:build systemd

package systemd

import (
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
