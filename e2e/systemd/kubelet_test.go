//go:build systemd

package systemd

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// startService starts the kubelet as a service, and waits until it has mounted.
func (m *machine) startService() {
	m.t.Helper()
	m.must("mkdir", "-p", "/run/systemd/system")
	m.must("sh", "-c", `{ cat /e2e/kubelet.service; printf 'Environment="DRIVER=%s" "VOLUME=%s" "POD_UID=%s"\n' "$DRIVER" "$VOLUME" "$POD_UID"; } >/run/systemd/system/kubelet.service`)
	m.must("systemctl", "daemon-reload")
	m.must("systemctl", "start", "kubelet")
}

// startProcess starts the kubelet in a cgroup, and waits until it has mounted.
// The arguments are those of kubelet.sh.
func (m *machine) startProcess(arguments ...string) {
	m.t.Helper()
	m.must("rm", "-f", "/run/kubelet.pid")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	m.t.Cleanup(cancel)
	kubelet := m.command(ctx, append([]string{"/e2e/kubelet.sh"}, arguments...)...)
	output := new(strings.Builder)
	kubelet.Stderr = output
	if err := kubelet.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- kubelet.Wait() }()
	m.eventually(time.Minute, func() error {
		select {
		case err := <-ended:
			m.t.Fatalf("the kubelet ended: %v: %s", err, output)
		default:
		}
		return m.run("test", "-s", "/run/kubelet.pid")
	})
}

// killAll kills all processes of a cgroup, and waits until it is empty.
func (m *machine) killAll(cgroup string) {
	m.t.Helper()
	m.must("sh", "-c", fmt.Sprintf("kill -KILL $(cat %s/cgroup.procs)", cgroup))
	m.eventually(time.Minute, func() error {
		if left := m.must("cat", cgroup+"/cgroup.procs"); left != "" {
			return fmt.Errorf("processes in %s: %s", cgroup, left)
		}
		return nil
	})
}

// hierarchy is where the machine has the one that it may change.
func (m *machine) hierarchy() string {
	if m.layout == v2 {
		return "/sys/fs/cgroup"
	}
	return "/sys/fs/cgroup/systemd"
}
