//go:build systemd

package systemd

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// restarts of the kubelet in each test.
const restarts = 5

// A kubelet that is a service of systemd, with the default KillMode.
func TestARestartOfTheService(t *testing.T) {
	onEach(t, func(t *testing.T, layout layout) {
		m := boot(t, layout)
		m.startService()
		before := m.served()
		m.isOut(before, "kubelet.service\n")
		m.survives(before, func() { m.must("systemctl", "restart", "kubelet") })
		m.survives(before, func() {
			m.must("sh", "-c", "systemctl daemon-reload && systemctl daemon-reexec && systemctl restart kubelet")
		})

		m.must("systemctl", "stop", "kubelet")
		m.stop()
		t.Logf("off after %v", m.off(2*time.Minute).Round(10*time.Millisecond))
	})
}

// A kubelet in a cgroup that something else than systemd kills.
func TestARestartWithoutSystemd(t *testing.T) {
	onEach(t, func(t *testing.T, layout layout) {
		m := bare(t, layout)
		group := m.hierarchy() + "/kubelet"
		m.startProcess(group)
		before := m.served()
		m.isOut(before, "kubelet\n")
		m.survives(before, func() {
			m.killAll(group)
			m.startProcess(group)
		})

		m.killAll(group)
		m.stop()
	})
}

// isOut checks that both processes are in the driver's own cgroup, and in none whose name ends so.
func (m *machine) isOut(s status, kubelets string) {
	m.t.Helper()
	if !strings.HasPrefix(s.Daemon.Cgroup, ownCgroup) || s.Daemon.CgroupError != "" {
		m.t.Errorf("the daemon's cgroup is %q, %q", s.Daemon.Cgroup, s.Daemon.CgroupError)
	}
	for _, pid := range s.pids() {
		if in := m.cgroupOf(pid); strings.Contains(in, kubelets) || !strings.Contains(in, ":"+s.Daemon.Cgroup+"\n") {
			m.t.Errorf("process %d is in\n%s", pid, in)
		}
	}
}

// survives restarts the kubelet under load, after which everything must be as
// before, and what it left behind must be gone.
func (m *machine) survives(before status, restart func()) {
	m.t.Helper()
	load := m.read()
	for range restarts {
		time.Sleep(300 * time.Millisecond)
		left := strings.TrimSpace(m.must("cat", "/run/left-behind"))
		restart()
		// Whose parent is killed as well waits for the first process to be reaped.
		if state, err := m.output("sed", "-n", "s/^State:\t//p", "/proc/"+left+"/status"); err == nil && !strings.HasPrefix(state, "Z") {
			m.t.Errorf("process %s survives the kubelet, so this restart proves nothing: %s", left, state)
		}
		if after := m.served(); !slices.Equal(after.pids(), before.pids()) || after.Daemon.Cgroup != before.Daemon.Cgroup {
			m.t.Errorf("processes %v in %s, before %v in %s", after.pids(), after.Daemon.Cgroup, before.pids(), before.Daemon.Cgroup)
		}
	}
	load.stop()
}
