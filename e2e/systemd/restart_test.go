//go:build systemd

package systemd

import (
	"fmt"
	"path"
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
		scope := path.Base(before.Daemon.Cgroup)
		if ok, _ := path.Match(scopes, scope); !ok || before.Daemon.CgroupError != "" {
			t.Errorf("the daemon's cgroup is %q, %q", before.Daemon.Cgroup, before.Daemon.CgroupError)
		}
		for _, pid := range before.pids() {
			if in := m.cgroupOf(pid); strings.Contains(in, "kubelet.service") || !strings.Contains(in, ":/system.slice/"+scope+"\n") {
				t.Errorf("process %d is in\n%s", pid, in)
			}
			if unit := m.must("systemctl", "status", "--no-pager", fmt.Sprint(pid)); !strings.Contains(strings.SplitN(unit, "\n", 2)[0], scope) {
				t.Errorf("process %d belongs to\n%s", pid, unit)
			}
		}
		m.survives(before, func() { m.must("systemctl", "restart", "kubelet") })

		m.must("systemctl", "stop", "kubelet")
		m.stop()
		m.eventually(time.Minute, func() error {
			if left := m.must("systemctl", "list-units", "--all", "--plain", "--no-legend", "pod-info-fuse*"); left != "" {
				return fmt.Errorf("left: %s", left)
			}
			return nil
		})
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
		if !strings.HasPrefix(before.Daemon.Cgroup, ownCgroup) || before.Daemon.CgroupError != "" {
			t.Errorf("the daemon's cgroup is %q, %q", before.Daemon.Cgroup, before.Daemon.CgroupError)
		}
		for _, pid := range before.pids() {
			if in := m.cgroupOf(pid); strings.Contains(in, "kubelet\n") || !strings.Contains(in, ":"+before.Daemon.Cgroup+"\n") {
				t.Errorf("process %d is in\n%s", pid, in)
			}
		}
		m.survives(before, func() {
			m.killAll(group)
			m.startProcess(group)
		})

		m.killAll(group)
		m.stop()
	})
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
