package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/internal/steady"
)

// driver is an installation of a driver, below one directory, as a kubelet has it.
type driver struct {
	root   string // has everything that this program makes
	name   string // vendor/driver, unlike any other on this machine
	binary string
}

// rig is the node: the driver, the pods, and what their programs read from.
type rig struct {
	driver
	*sources
	pods int

	mounting, unmounting *steady.Times // of pods' volumes; nil: nobody asks
}

const program17 = "pod-fuse"

// installDriver installs a binary as the driver of a program, by a vendor of its own. That of
// pod-info-fuse logs to a file; pod-fuse logs to syslog, whatever is configured.
func installDriver(root, program, binary string) (driver, error) {
	vendor := filepath.Base(root) + ".example.com"
	d := driver{root: root, name: vendor + "/" + program, binary: filepath.Join(root, "plugins", vendor+"~"+program, program)}
	log := filepath.Join(root, program+".log")
	return d, errors.Join(os.MkdirAll(filepath.Dir(d.binary), 0o755), d.replace(binary),
		os.WriteFile(filepath.Join(filepath.Dir(d.binary), "config.json"), fmt.Appendf(nil, `{"log": %q}`, log), 0o644))
}

// replace installs a binary as an upgrade does: complete and on disk before it gets its name.
func (d *driver) replace(binary string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	hidden := filepath.Join(filepath.Dir(d.binary), ".new")
	// Or a program that somebody else starts meanwhile has the file open for writing until it is
	// executed, and the driver cannot be: ETXTBSY.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(hidden, content, 0o711); err != nil {
		return err
	}
	return os.Rename(hidden, d.binary)
}

// callOut calls the driver as the kubelet does.
func (d *driver) callOut(args ...string) error {
	output, err := d.execute(args...)
	var answer struct{ Status, Message string }
	if broken := json.Unmarshal(output, &answer); broken != nil {
		return errors.Join(err, fmt.Errorf("the answer to %q, %q: %w", args, output, broken))
	}
	if answer.Status != "Success" {
		return fmt.Errorf("%q: %s: %s", args, answer.Status, answer.Message)
	}
	return err
}

// execute returns what a command prints on either stream: the kubelet makes no difference
// between them, and waits until nobody holds them any more.
func (d *driver) execute(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.WaitDelay = 20 * time.Second
	// In a cgroup namespace of its own, the driver's cgroup is the root, which the daemon need
	// not leave: here that would take it out of whatever limits this program is run with.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %q: %w: %s", d.binary, args, err, output)
	}
	return output, err
}

// status is the part of a driver's status that matters here.
type status struct {
	Version string
	RunDir  string
	Daemon  struct{ Active, Standby *struct{ PID int } }
}

func (s status) pids() (active, standby int) {
	if s.Daemon.Active != nil {
		active = s.Daemon.Active.PID
	}
	if s.Daemon.Standby != nil {
		standby = s.Daemon.Standby.PID
	}
	return active, standby
}

func (d *driver) status() (s status, err error) {
	output, err := d.execute("status", "-o", "json")
	if err == nil {
		err = json.Unmarshal(output, &s)
	}
	return s, err
}

// awaitPair waits until there are an active and a standby, and neither is the process that
// ended.
func (d *driver) awaitPair(ctx context.Context, ended int) (s status, err error) {
	err = await(ctx, stepTimeout, func() error {
		if s, err = d.status(); err != nil {
			return err
		}
		if active, standby := s.pids(); active == 0 || standby == 0 || active == ended || standby == ended {
			return fmt.Errorf("the active is %d, the standby %d", active, standby)
		}
		return nil
	})
	return s, err
}

// mounters are the mounter and its spare: the driver has no other resident process of that verb.
func (d *driver) mounters() (found []int) {
	for _, pid := range d.processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if words := bytes.Split(line, []byte{0}); slices.ContainsFunc(words[1:], func(w []byte) bool { return string(w) == "mounter" }) {
			found = append(found, pid)
		}
	}
	return found
}

// processes are the living processes of the driver, outside of pods.
func (d *driver) processes() (found []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		executable, _ := os.Readlink(filepath.Join(dir, "exe"))
		commandLine, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		ours := strings.HasPrefix(executable, filepath.Dir(d.binary)+"/") || bytes.Contains(commandLine, []byte(d.name))
		if ours && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found
}

// signal signals a process, and only if it is the driver's: what reported its PID may have been
// too late.
func (d *driver) signal(pid int, signal unix.Signal) error {
	process, err := os.FindProcess(pid) // holds on to it, with a pidfd
	if err != nil {
		return err
	}
	defer process.Release()
	if !slices.Contains(d.processes(), pid) {
		return fmt.Errorf("process %d, which is to be sent %v, is not the driver's", pid, signal)
	}
	return process.Signal(signal)
}

// mounts are mount points below the rig, from the kernel's table: to look at the directories
// could take for ever.
func (d *driver) mounts() (points []string) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if strings.HasPrefix(fields[4], d.root+"/") || slices.Contains(fields, d.name) {
			points = append(points, fields[4])
		}
	}
	return points
}

// cgroups returns the cgroups of the pods, and those that drivers made for themselves, deepest
// first.
func (d *driver) cgroups() (found []string) {
	name := filepath.Base(d.root)
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		dirs, _ := filepath.Glob(filepath.Join(root, "*"+name+"*"))
		for _, dir := range dirs {
			_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					found = append(found, path)
				}
				return nil
			})
		}
	}
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
	return found
}

// removeTree removes a directory, and never what is mounted in it.
func (d *driver) removeTree(dir string) error {
	for _, point := range d.mounts() {
		if strings.HasPrefix(point, dir+"/") {
			return fmt.Errorf("%s is still mounted", point)
		}
	}
	return os.RemoveAll(dir)
}

// cleanUp ends and removes everything, also what a failure has left, and returns what of it
// should have been gone.
func (r *rig) cleanUp() (left []string) {
	for _, pid := range cgroupProcesses("/" + filepath.Base(r.root)) {
		left = append(left, fmt.Sprintf("process %d of a pod (%c)", pid, stateOf(pid)))
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if r.binary != "" && len(r.processes())+len(r.mounts()) > 0 {
		if output, err := r.execute("stop"); err != nil {
			left = append(left, fmt.Sprintf("stop: %v: %s", err, output))
			_, _ = r.execute("stop", "--force")
		}
	}
	if r.sources != nil {
		r.sources.stop()
	}
	if r.binary != "" {
		for _, pid := range r.processes() {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			left = append(left, fmt.Sprintf("process %d %q", pid, line))
			_ = r.signal(pid, unix.SIGKILL)
		}
	}
	for _, point := range slices.Backward(r.mounts()) {
		left = append(left, "mount "+point)
		_ = unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	for _, group := range r.cgroups() {
		// runc leaves the directories above a container's, as it leaves them to the kubelet.
		if base := filepath.Base(group); base != "kubepods" && base != "besteffort" && base != filepath.Base(r.root) && !strings.HasPrefix(base, "pod9f0c") {
			left = append(left, "cgroup "+group)
		}
		err := await(context.Background(), stepTimeout, func() error {
			if err := unix.Rmdir(group); err != unix.ENOENT {
				return err
			}
			return nil
		})
		if err != nil {
			left = append(left, fmt.Sprintf("cgroup %s: %v", group, err))
		}
	}
	if err := r.removeTree(r.root); err != nil {
		left = append(left, err.Error())
	}
	return left
}

// stepTimeout is how long anything may take, on any machine.
const stepTimeout = time.Minute

// sleep waits, unless the program is told to end.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case <-time.After(d):
		return nil
	}
}

// await looks at something every now and then until it is as it should be, and returns what was
// wrong with it last when the limit is over.
func await(ctx context.Context, limit time.Duration, look func() error) error {
	for deadline := time.Now().Add(limit); ; {
		err := look()
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v: %w", limit, err)
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
