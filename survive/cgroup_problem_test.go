package survive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"example.com/pod-info-fuse/internal/testnode"
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
	path := filepath.Join(testnode.TestVendor+strings.Repeat("x", length), strings.Repeat("y", length), strings.Repeat("z", length))
	for _, mount := range mounts {
		group := filepath.Join(mount.Mountpoint, path)
		if err := os.MkdirAll(group, 0o755); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, group)
	}
	t.Cleanup(func() {
		for _, group := range groups {
			testnode.Eventually(t, "the cgroup is empty", func() bool { return os.Remove(group) == nil })
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
func inCgroups(d testnode.Driver, groups []string) testnode.Driver {
	script := `for group in ` + strings.Join(groups, " ") + `; do echo $$ > /proc/` + strconv.Itoa(os.Getpid()) + `/root$group/cgroup.procs; done; exec "$@"`
	d.On = append(append([]string{}, d.On...), "sh", "-c", script, "sh")
	return d
}

// cgroupsBecome remounts what shows cgroups on the driver's node, "ro" or "rw".
func cgroupsBecome(d testnode.Driver, mode string) {
	d.T.Helper()
	d.OnItsNode(`for group in $(awk '$3 ~ /^cgroup/ { print $2 }' /proc/mounts); do mount -o remount,bind,$1 $group; done`, mode)
}

// Where nobody can move the daemon, the kubelet's cgroups may have long paths, as in a
// node that is a container.
func TestALongCgroupProblemIsToldAndDoesNoHarm(t *testing.T) {
	groups := kubeletsCgroup(t, 150)
	node := testnode.Install(t).OnNode()
	d := inCgroups(node, groups)
	cgroupsBecome(node, "ro")
	dir := d.Mount()
	if got := node.OnItsNode(`cat "$1/pod.uid"`, dir); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	problem := d.Status().Daemon.CgroupError
	if got := strings.Count(problem, " of cgroup hierarchy "); got != len(groups) {
		t.Errorf("status tells of %d hierarchies of %d, in %d bytes: %s", got, len(groups), len(problem), problem)
	}
}

// The cgroup problem that status tells of is that of the daemon that serves.
func TestAfterAnUpgradeStatusTellsOfTheNewDaemonsCgroup(t *testing.T) {
	groups := kubeletsCgroup(t, 10)
	node := testnode.Install(t).OnNode()
	d := inCgroups(node, groups)
	for i, row := range []struct {
		cgroups, binary string
		problem         bool
	}{
		{"ro", testnode.Binary, true},
		{"rw", testnode.Newer, false},
		{"ro", testnode.Binary, true},
	} {
		cgroupsBecome(node, row.cgroups)
		if i == 0 {
			d.Mount()
		} else {
			d.ReplaceBinary(row.binary)
			d.Must("init")
		}
		d.Pair()
		s := d.Status().Daemon
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
	d := testnode.Install(t)
	d.Mount()
	active, standby := d.Pair()
	limits := d.Status().Daemon.Limits
	if limits.Threads == 0 || limits.Threads > 1000 {
		t.Errorf("status: %+v", limits)
	}
	for _, pid := range []int{active, standby} {
		_, group, _ := strings.Cut(testnode.Read(t, fmt.Sprintf("/proc/%d/cgroup", pid)), ":pids:")
		group, _, _ = strings.Cut(group, "\n")
		if got := testnode.Read(t, pids[0].Mountpoint, group, "pids.max"); got != fmt.Sprintln(limits.Threads) {
			t.Errorf("process %d may have %q threads in %s, want %d", pid, got, group, limits.Threads)
		}
	}
}
