//go:build systemd

package systemd

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What run.sh has built.
const zipBinary = "../bin/zip"

// zipUnits runs the units of examples/zip, as docs/without-kubernetes.md says: they start, survive
// kill -9, heal, restart, and stop.
func (m *machine) zipUnits() {
	m.t.Helper()
	const want = "content of an archive\n"
	install := m.installZip(want)
	m.must("sh", "-euc", `mkdir -p /srv /mnt/site && cp /e2e/site.zip /srv && cd /e2e/zip && `+install)
	reads := func() {
		m.t.Helper()
		if got := m.must("cat", "/mnt/site/file"); got != want {
			m.t.Errorf("/mnt/site/file has %q", got)
		}
	}
	reads()
	active, _ := m.zipPair(0)
	if in := m.cgroupOf(active); strings.Contains(in, ".service\n") {
		m.t.Errorf("process %d is in\n%s", active, in)
	}
	m.must("sh", "-c", fmt.Sprintf("kill -9 %d", active))
	reads()
	active, standby := m.zipPair(active)
	m.must("sh", "-c", fmt.Sprintf("kill -STOP %[1]d %[2]d && kill -9 %[1]d %[2]d", active, standby)) // so that none takes over
	m.must("systemctl", "start", "zip-restore")                                                       // or its timer, within ten seconds
	reads()
	m.must("systemctl", "restart", "zip@mnt-site")
	reads()
	// On cgroup v1, a machine sees the host's cgroups. The names of its own have that of its run
	// directory.
	own := strings.TrimSpace(m.must("ls", "/run/zip"))
	m.must("systemctl", "stop", "zip@mnt-site", "zip-restore.timer")
	m.eventually(time.Minute, func() error {
		left := m.must("sh", "-c", `
			readlink /proc/[0-9]*/exe | grep -x /usr/local/libexec/zip
			ls /run/zip 2>/dev/null
			grep fuse.zip /proc/self/mountinfo
			find /sys/fs/cgroup -name 'zip-`+own+`~*'
			true`)
		if left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
}

// installZip puts what the document's commands need into the shared directory, and returns these
// commands.
func (m *machine) installZip(content string) (commands string) {
	m.t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	file, err := w.Create("file")
	if err == nil {
		_, err = file.Write([]byte(content))
	}
	document, errRead := os.ReadFile("../../docs/without-kubernetes.md")
	units := filepath.Join(m.shared, "zip", "examples", "zip")
	err = errors.Join(err, errRead, w.Close(), os.WriteFile(filepath.Join(m.shared, "site.zip"), archive.Bytes(), 0o600),
		os.MkdirAll(units, 0o755), copyFile(zipBinary, filepath.Join(m.shared, "zip", "zip")))
	found, _ := filepath.Glob("../../examples/zip/zip*.*er*")
	for _, unit := range found {
		text, errRead := os.ReadFile(unit)
		err = errors.Join(err, errRead, os.WriteFile(filepath.Join(units, filepath.Base(unit)), text, 0o644))
	}
	if err != nil {
		m.t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "\n## With systemd\n")
	for line := range strings.Lines(section) {
		if command, is := strings.CutPrefix(line, "    "); is {
			commands += command
		}
	}
	if !strings.Contains(commands, "systemctl enable --now zip@mnt-site") {
		m.t.Fatalf("docs/without-kubernetes.md has other commands: %q", commands)
	}
	return commands
}

// zipPair waits for two processes, neither of which has ended.
func (m *machine) zipPair(ended int) (active, standby int) {
	m.t.Helper()
	m.eventually(time.Minute, func() error {
		var all []status
		text := m.must("/usr/local/libexec/zip", "status", "-o", "json", "/mnt/site")
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return err
		}
		d := all[0].Daemon
		if d.Active == nil || d.Standby == nil || d.Active.PID*d.Standby.PID == 0 || d.Active.PID == ended || d.Standby.PID == ended {
			return errors.New(text)
		}
		active, standby = d.Active.PID, d.Standby.PID
		return nil
	})
	return active, standby
}

func TestUnits(t *testing.T) {
	onEach(t, func(t *testing.T, layout layout) {
		m := boot(t, layout)
		begun := time.Now()
		m.zipUnits()
		t.Logf("the units took %v", time.Since(begun).Round(10*time.Millisecond))
	})
}
