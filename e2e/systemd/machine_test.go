//go:build systemd

package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A machine is a container with a Debian on it. What is written to its disk is
// gone with it.
type machine struct {
	t       *testing.T
	layout  layout
	name    string
	shared  string // directory on this machine that is /e2e on the other
	nspawn  *exec.Cmd
	ended   chan error // what nspawn ended with
	first   int        // PID of its first process, here
	console bytes.Buffer
}

// boot starts a machine with systemd.
func boot(t *testing.T, layout layout) *machine {
	m := start(t, layout, "--boot")
	m.eventually(3*time.Minute, func() error { return m.run("systemctl", "is-system-running", "--wait") })
	return m
}

// bare starts a machine whose first process only waits.
func bare(t *testing.T, layout layout) *machine {
	m := start(t, layout, "--as-pid2", "--", "/bin/sh", "-c", "touch /run/up; exec sleep infinity")
	m.eventually(time.Minute, func() error { return m.run("test", "-e", "/run/up") })
	return m
}

func start(t *testing.T, layout layout, arguments ...string) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("machines need root")
	}
	m := &machine{t: t, layout: layout, name: fmt.Sprintf("e2e-%d", os.Getpid()), ended: make(chan error, 1)}
	m.shared = m.install()
	// It makes cgroups beside those that it is in, so it gets some of its own.
	script := `for dir in ` + strings.Join(m.cgroups(), " ") + `; do mkdir "$dir" && echo $$ >"$dir/cgroup.procs" || exit; done; exec systemd-nspawn "$@"`
	m.nspawn = exec.Command("sh", append([]string{"-c", script, "sh",
		"--directory=" + debian, "--volatile=overlay", "--bind=" + m.shared + ":/e2e", "--bind=/dev/fuse",
		"--machine=" + m.name, "--register=no", "--keep-unit", "--capability=all", "--console=pipe"}, arguments...)...)
	m.nspawn.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY="+string(layout))
	m.nspawn.Stdout, m.nspawn.Stderr = &m.console, &m.console
	m.nspawn.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGTERM}
	if err := m.nspawn.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { m.ended <- m.nspawn.Wait() }()
	t.Cleanup(m.destroy)
	m.eventually(time.Minute, m.findFirst)
	return m
}

// findFirst finds the machine's first process, a child of nspawn that has two
// PIDs, the second of which is 1: NSpid in proc_pid_status(5).
func (m *machine) findFirst() error {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", m.nspawn.Process.Pid))
	if err != nil {
		return err
	}
	for child := range strings.FieldsSeq(string(children)) {
		status, _ := os.ReadFile("/proc/" + child + "/status")
		for line := range strings.Lines(string(status)) {
			if pids := strings.Fields(line); len(pids) == 3 && pids[0] == "NSpid:" && pids[2] == "1" {
				_, err := fmt.Sscan(child, &m.first)
				return err
			}
		}
	}
	return fmt.Errorf("nspawn, process %d, has no machine yet", m.nspawn.Process.Pid)
}

// cgroups are the directories, here, of the cgroups that the machine is in.
func (m *machine) cgroups() []string {
	found, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	var dirs []string
	for _, file := range found {
		if root := filepath.Dir(file); filepath.Base(root) == "systemd" || filepath.Base(root) == "unified" {
			dirs = append(dirs, filepath.Join(root, m.name))
		}
	}
	return dirs
}

// command prepares a command on the machine. Name spaces are not all: it must
// be in the machine's cgroups as well, which nspawn calls payload.
func (m *machine) command(ctx context.Context, arguments ...string) *exec.Cmd {
	script := `for dir in ` + strings.Join(m.cgroups(), " ") + `; do echo $$ >"$dir/payload/cgroup.procs" || exit; done; exec nsenter --target "$@"`
	command := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh", fmt.Sprint(m.first), "--all",
		"env", "DRIVER=" + driverPath, "VOLUME=" + volume, "POD_UID=" + podUID}, arguments...)...)
	command.WaitDelay = 20 * time.Second
	return command
}

// output runs a command on the machine.
func (m *machine) output(arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	command := m.command(ctx, arguments...)
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%q: %w: %s%s", arguments, err, output, problems.Bytes())
	}
	return string(output), err
}

func (m *machine) run(arguments ...string) error {
	_, err := m.output(arguments...)
	return err
}

// must runs a command that must succeed, and returns its output.
func (m *machine) must(arguments ...string) string {
	m.t.Helper()
	output, err := m.output(arguments...)
	if err != nil {
		m.t.Fatal(err)
	}
	return output
}

func (m *machine) eventually(limit time.Duration, check func() error) {
	m.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		} else if time.Now().After(deadline) {
			m.t.Fatalf("after %v: %v", limit, err)
		}
	}
}

// off shuts the machine down in order, and returns how long that took.
func (m *machine) off(limit time.Duration) time.Duration {
	m.t.Helper()
	began := time.Now()
	m.must("systemctl", "poweroff")
	select {
	case err := <-m.ended:
		m.ended <- err // for destroy
	case <-time.After(limit):
		m.t.Fatalf("the machine is not off after %v", limit)
	}
	return time.Since(began)
}

// destroy ends what runs of the machine, and removes what it made here. Whose
// first process is killed, all are.
func (m *machine) destroy() {
	if m.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(m.shared, "log"))
		journal, _ := m.output("journalctl", "--no-pager", "--boot", "--lines=30", "--output=short-monotonic")
		m.t.Logf("log:\n%s\njournal:\n%s\nconsole:\n%s", log, journal, &m.console)
	}
	select {
	case <-m.ended:
	default:
		if m.first != 0 {
			_ = unix.Kill(m.first, unix.SIGKILL)
		} else {
			_ = m.nspawn.Process.Kill()
		}
		select {
		case <-m.ended:
		case <-time.After(time.Minute):
			m.t.Errorf("nspawn, process %d, does not end", m.nspawn.Process.Pid)
		}
	}
	for _, dir := range m.cgroups() {
		if err := removeTree(dir); err != nil {
			m.t.Error(err)
		}
	}
}

// removeTree removes cgroups: directories that nobody can remove the files of.
func removeTree(dir string) error {
	below, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range below {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := os.Remove(dir) // EBUSY: some of the processes have not quite ended
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}
