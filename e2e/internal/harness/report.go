package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Report is what can be seen of a driver from outside, for a test that failed: what
// it says of itself, which of its mounts each mount namespace has, and what its
// processes wait for. It asks no mount, which may be dead or hang.
func (d *Driver) Report() string {
	var report strings.Builder
	status, err := d.Run("status")
	fmt.Fprintf(&report, "--- status of the driver %s (%v)\n%s", d.Name, err, status)
	fmt.Fprintf(&report, "--- its mounts\n")
	for namespace, lines := range d.mounts() {
		fmt.Fprintf(&report, "%s\n%s", namespace, lines)
	}
	fmt.Fprintf(&report, "--- the daemon's processes, those of other drivers too\n")
	for _, dir := range processDirs() {
		switch name, _ := os.ReadFile(filepath.Join(dir, "comm")); string(name) {
		case "pod-info-fuse\n", "pod-fuse\n", "exe\n": // exe: it has executed /proc/self/exe
			report.WriteString(describe(dir))
		}
	}
	return report.String()
}

// mounts are the driver's lines of mountinfo by mount namespace, each with a process
// that is in it.
func (d *Driver) mounts() map[string]string {
	seen, found := map[string]bool{}, map[string]string{}
	for _, dir := range processDirs() {
		namespace, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
		if err != nil || seen[namespace] {
			continue // it has ended, or is one of those that had been listed
		}
		seen[namespace] = true
		table, _ := os.ReadFile(filepath.Join(dir, "mountinfo"))
		var lines string
		for line := range strings.Lines(string(table)) {
			if strings.Contains(line, " "+d.Name+" ") { // the source
				lines += "  " + line
			}
		}
		if lines != "" {
			found[namespace+" of process "+filepath.Base(dir)] = lines
		}
	}
	return found
}

// describe tells of each thread of a process how it is: its state, and where in the
// kernel it waits.
func describe(dir string) string {
	argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	text := fmt.Sprintf("%s %s\n", filepath.Base(dir), bytes.ReplaceAll(argv, []byte{0}, []byte{' '}))
	threads, _ := filepath.Glob(filepath.Join(dir, "task/*"))
	for _, thread := range threads {
		wait, _ := os.ReadFile(filepath.Join(thread, "wchan"))
		text += fmt.Sprintf("  thread %s: %s %s\n", filepath.Base(thread), stateIn(thread), wait)
	}
	return text
}

func processDirs() []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	return dirs
}
