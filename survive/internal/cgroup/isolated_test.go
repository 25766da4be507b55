package cgroup

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// run is of this run alone: the cgroups of the machine may be those of other runs, too.
var run = cmp.Or(os.Getenv("CGROUP_TEST_RUN"), strconv.FormatUint(uint64(rand.Uint32()), 36))

// The tests' driver, and the cgroup that plays the kubelet's.
var driver, kubelets = "pod-info-fuse-example.com/cgroup-test-" + run, "kubelet-" + run

// isolated runs the test once more, as process 1 of name spaces of its own, and
// reports true there. The cgroups that this process is in are the roots of all
// hierarchies there: the test sees no others, nothing leaves the limits that it
// runs under, and no process outlives it.
func isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv("CGROUP_TEST") == t.Name() {
		mountHierarchies(t)
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	command := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	command.Env = append(os.Environ(), "CGROUP_TEST="+t.Name(), "CGROUP_TEST_RUN="+run)
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWCGROUP,
		Pdeathsig:  unix.SIGKILL,
	}
	output, err := command.CombinedOutput()
	left, _ := filepath.Glob("/sys/fs/cgroup/*/*-" + run + "*") // of a test that was killed
	for _, dir := range left {
		_ = removeEmpty(dir)
	}
	if !strings.Contains(string(output), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, output)
	}
	return false
}

// mountHierarchies mounts what the machine has again, as the name space shows it.
func mountHierarchies(t *testing.T) {
	t.Helper()
	used := outerMounts(t)
	mount(t, "none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	mount(t, "proc", "/proc", "proc", 0, "")
	mount(t, "none", "/sys/fs/cgroup", "tmpfs", 0, "")
	list, err := hierarchies(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if !slices.ContainsFunc(used, m.isMountedBy) {
			continue // the machine does not use it
		}
		dir := filepath.Join("/sys/fs/cgroup", m.String())
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if m.unified() {
			mount(t, "none", dir, "cgroup2", 0, "")
		} else {
			mount(t, "none", dir, "cgroup", 0, m.String())
		}
	}
}

// outerMounts finds the machine's hierarchies, whatever part of them our own
// cgroup name space makes their root.
func outerMounts(t *testing.T) (list []*mountinfo.Info) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		_, tail, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(tail); len(fields) == 3 && strings.HasPrefix(fields[0], "cgroup") {
			list = append(list, &mountinfo.Info{Root: "/", FSType: fields[0], VFSOptions: fields[2]})
		}
	}
	return list
}

func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		t.Fatalf("mount %s %s on %s: %v", kind, data, target, err)
	}
}

// mountedHierarchies lists those that are mounted, by their directory.
func mountedHierarchies(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("/sys/fs/cgroup/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cgroup hierarchy on this machine: %v", err)
	}
	return dirs
}

// kubelet makes a cgroup in each hierarchy, with a process in it.
func kubelet(t *testing.T, hierarchies []string) int {
	t.Helper()
	process := exec.Command("sleep", "1000")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		if err := Remove(driver); err != nil {
			t.Error(err)
		}
		for _, dir := range hierarchies {
			if err := removeEmpty(filepath.Join(dir, kubelets)); err != nil {
				t.Error(err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*~"+path.Base(driver)+"~*")); left != nil {
				t.Errorf("left: %s", left)
			}
		}
	})
	for _, dir := range hierarchies {
		group := filepath.Join(dir, kubelets)
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(dir, "cpuset") {
			for _, name := range []string{"cpuset.cpus", "cpuset.mems"} { // it has none at first
				value, err := os.ReadFile(filepath.Join(dir, name))
				if err == nil {
					err = write(filepath.Join(group, name), string(value))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(process.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	return process.Process.Pid
}

// removeEmpty removes a cgroup whose last process has ended. Some kernels take a moment until
// they know that.
func removeEmpty(dir string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if err := unix.Rmdir(dir); err != unix.EBUSY || time.Now().After(deadline) {
			return err
		}
	}
}

// groups tells the process's cgroups: hierarchy -> path.
func groups(t *testing.T, pid int) map[string]string {
	t.Helper()
	list, err := hierarchies(pid)
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]string{}
	for _, m := range list {
		groups[fmt.Sprint(m)] = m.path
	}
	return groups
}
