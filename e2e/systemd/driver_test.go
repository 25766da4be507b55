//go:build systemd

package systemd

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	podUID = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"
	// On the machine.
	driverDir  = "/e2e/plugins/example.com~pod-info-fuse"
	driverPath = driverDir + "/pod-info-fuse"
	volume     = "/var/lib/kubelet/pods/" + podUID + "/volumes/example.com~pod-info-fuse/pod-info"
	// ownCgroup begins the name of what the driver makes.
	ownCgroup = "/pod-info-fuse-example.com~pod-info-fuse~"
)

//go:embed testdata/kubelet.sh
var kubeletScript []byte

//go:embed testdata/kubelet.service
var kubeletUnit []byte

// install puts what a machine needs into a new directory.
func (m *machine) install() string {
	m.t.Helper()
	shared := m.t.TempDir()
	plugin := filepath.Join(shared, strings.TrimPrefix(driverDir, "/e2e"))
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(plugin, 0o755)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	if err := errors.Join(
		copyFile(driverBinary, filepath.Join(plugin, "pod-info-fuse")),
		copyFile(self, filepath.Join(shared, "reader")),
		os.WriteFile(filepath.Join(plugin, "config.json"), []byte(`{"log": "/e2e/log"}`), 0o644),
		os.WriteFile(filepath.Join(shared, "kubelet.sh"), kubeletScript, 0o755),
		os.WriteFile(filepath.Join(shared, "kubelet.service"), kubeletUnit, 0o644),
	); err != nil {
		m.t.Fatal(err)
	}
	return shared
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o711)
}

// status is the part of the driver's status that matters here.
type status struct {
	Mount  struct{ State string }
	Daemon struct {
		Active, Standby     *struct{ PID int }
		Cgroup, CgroupError string
	}
	Volumes []struct{ State string }
}

// pids are the two processes.
func (s status) pids() []int { return []int{s.Daemon.Active.PID, s.Daemon.Standby.PID} }

// served waits until the driver has what a healthy one has, and returns its status.
func (m *machine) served() (s status) {
	m.t.Helper()
	m.eventually(time.Minute, func() error {
		output, err := m.output(driverPath, "status", "-o", "json")
		if err != nil {
			return err
		}
		s = status{}
		if err := json.Unmarshal([]byte(output), &s); err != nil {
			return err
		}
		if s.Daemon.Active == nil || s.Daemon.Standby == nil || slices.Contains(s.pids(), 0) || len(s.Volumes) != 1 || s.Volumes[0].State != "ok" {
			return fmt.Errorf("status: %s", output)
		}
		return nil
	})
	return s
}

// cgroupOf is all of /proc/PID/cgroup.
func (m *machine) cgroupOf(pid int) string {
	m.t.Helper()
	return m.must("cat", fmt.Sprintf("/proc/%d/cgroup", pid))
}

// callOut calls the driver as the kubelet does.
func (m *machine) callOut(arguments ...string) {
	m.t.Helper()
	if answer := m.must(append([]string{driverPath}, arguments...)...); !strings.Contains(answer, `"Success"`) {
		m.t.Fatalf("%q: %s", arguments, answer)
	}
}

// stop removes the volume, stops the driver and checks that nothing is left.
func (m *machine) stop() {
	m.t.Helper()
	m.callOut("unmount", volume)
	m.must(driverPath, "stop")
	// Not one by one: a process takes its time to end.
	m.eventually(time.Minute, func() error {
		left := m.must("sh", "-c", `
			readlink /proc/[0-9]*/exe | grep -x "$DRIVER"
			find /run/pod-info-fuse -name '*pod-info-fuse*' 2>/dev/null
			find /sys/fs/cgroup -name 'pod-info-fuse-example.com*' # others are of other drivers, not on this machine
			grep pod-info-fuse /proc/self/mountinfo
			true`)
		if left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
}
