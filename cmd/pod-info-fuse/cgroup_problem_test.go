package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// kubeletsCgroup makes a cgroup in each hierarchy that is mounted here from its root on,
// for a test's processes, until the test ends. Its path has three elements of a length.
func kubeletsCgroup(t *testing.T, length int) (groups []string) {
	t.Helper()
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		// In a cpuset, a new cgroup would need CPUs first.
		return !strings.HasPrefix(m.FSType, "cgroup") || m.Root != "/" || strings.Contains(m.VFSOptions, "cpuset"), false
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(testVendor+strings.Repeat("x", length), strings.Repeat("y", length), strings.Repeat("z", length))
	for _, mount := range mounts {
		group := filepath.Join(mount.Mountpoint, path)
		if err := os.MkdirAll(group, 0o755); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, group)
	}
	t.Cleanup(func() {
		for _, group := range groups {
			eventually(t, "the cgroup is empty", func() bool { return os.Remove(group) == nil })
			if err := os.Remove(filepath.Dir(group)); err != nil {
				t.Error(err)
			}
			if err := os.Remove(filepath.Dir(filepath.Dir(group))); err != nil {
				t.Error(err)
			}
		}
	})
	return groups
}

// inCgroups is the driver's place as a kubelet has it that is in these cgroups, and sees
// cgroups read-only if so. It gets there by the mounts of this process.
func (d installed) inCgroups(groups []string) installed {
	script := `for group in ` + strings.Join(groups, " ") + `; do echo $$ > /proc/` + strconv.Itoa(os.Getpid()) + `/root$group/cgroup.procs; done; exec "$@"`
	d.on = append(append([]string{}, d.on...), "sh", "-c", script, "sh")
	return d
}

// cgroupsBecome remounts what shows cgroups on the driver's node, "ro" or "rw".
func (d installed) cgroupsBecome(mode string) {
	d.t.Helper()
	d.onItsNode(`for group in $(awk '$3 ~ /^cgroup/ { print $2 }' /proc/mounts); do mount -o remount,bind,$1 $group; done`, mode)
}

// Where nobody can move the daemon, the kubelet's cgroups may have long paths, as in a
// node that is a container.
func TestALongCgroupProblemIsToldAndDoesNoHarm(t *testing.T) {
	groups := kubeletsCgroup(t, 150)
	node := install(t).onNode()
	d := node.inCgroups(groups)
	node.cgroupsBecome("ro")
	dir := d.mount()
	if got := node.onItsNode(`cat "$1/pod.uid"`, dir); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	problem := d.status().Daemon.CgroupError
	if got := strings.Count(problem, " of cgroup hierarchy "); got != len(groups) {
		t.Errorf("status tells of %d hierarchies of %d, in %d bytes: %s", got, len(groups), len(problem), problem)
	}
}

// The cgroup problem that status tells of is that of the daemon that serves.
func TestAfterAnUpgradeStatusTellsOfTheNewDaemonsCgroup(t *testing.T) {
	groups := kubeletsCgroup(t, 10)
	node := install(t).onNode()
	d := node.inCgroups(groups)
	for i, row := range []struct {
		cgroups, binary string
		problem         bool
	}{
		{"ro", binary, true},
		{"rw", newer, false},
		{"ro", binary, true},
	} {
		node.cgroupsBecome(row.cgroups)
		if i == 0 {
			d.mount()
		} else {
			d.replaceBinary(row.binary)
			d.must("init")
		}
		d.pair()
		s := d.status().Daemon
		stays := strings.Contains(s.Cgroup, "zzz")
		if (s.CgroupError != "") != row.problem || stays != row.problem {
			t.Errorf("upgrade %d, cgroups %s: status tells of %s, problem %q", i, row.cgroups, s.Cgroup, s.CgroupError)
		}
	}
}

// The daemon cannot take more of the node than its cgroup lets it.
func TestStatusTellsHowTheDaemonIsLimited(t *testing.T) {
	pids, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.FSType != "cgroup" || m.Root != "/" || !strings.Contains(m.VFSOptions, "pids"), false
	})
	if err != nil || len(pids) == 0 {
		t.Skipf("no hierarchy of cgroup v1 that limits threads: %v", err)
	}
	d := install(t)
	d.mount()
	active, standby := d.pair()
	limits := d.status().Daemon.Limits
	if limits.Threads == 0 || limits.Threads > 1000 {
		t.Errorf("status: %+v", limits)
	}
	for _, pid := range []int{active, standby} {
		_, group, _ := strings.Cut(read(t, fmt.Sprintf("/proc/%d/cgroup", pid)), ":pids:")
		group, _, _ = strings.Cut(group, "\n")
		if got := read(t, pids[0].Mountpoint, group, "pids.max"); got != fmt.Sprintln(limits.Threads) {
			t.Errorf("process %d may have %q threads in %s, want %d", pid, got, group, limits.Threads)
		}
	}
}
