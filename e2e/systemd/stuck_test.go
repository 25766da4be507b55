//go:build systemd

package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Where neither way leads out of the kubelet's cgroup, a volume that lives until
// the kubelet restarts is better than none; but somebody has to be told.
func TestNoWayOut(t *testing.T) {
	onEach(t, func(t *testing.T, layout layout) {
		m := bare(t, layout)
		m.startProcess(m.hierarchy()+"/kubelet", m.hierarchy())
		s := m.served()
		for place, text := range map[string]string{"status": s.Daemon.CgroupError, "log": m.log()} {
			for _, part := range []string{"cgroup of the kubelet", "/kubelet", "read-only"} {
				if !strings.Contains(text, part) {
					t.Errorf("the %s does not have %q: %s", place, part, text)
				}
			}
		}
		if s.Daemon.Cgroup != "/kubelet" {
			t.Errorf("the daemon's cgroup is %q", s.Daemon.Cgroup)
		}
		load := m.read()
		time.Sleep(300 * time.Millisecond)
		load.stop()
		m.callOut("unmount", volume)
		m.must(driverPath, "stop")
	})
}

// log is what the driver wrote.
func (m *machine) log() string {
	content, err := os.ReadFile(filepath.Join(m.shared, "log"))
	if err != nil {
		m.t.Error(err)
	}
	return string(content)
}
