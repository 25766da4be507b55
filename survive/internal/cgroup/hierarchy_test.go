package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// testdata has a tree for each kind of system: /proc/1234/cgroup of the daemon,
// and /proc/self/mountinfo.
var systems = []struct {
	name string
	of   string
	// Where the hierarchies that the process is not in the root of are mounted.
	leaves []string
}{
	{"unified", "/system.slice/kubelet.service", []string{
		"unified /sys/fs/cgroup",
	}},
	{"legacy", "/system.slice/kubelet.service", []string{
		"memory /sys/fs/cgroup/memory",
		"cpu,cpuacct /sys/fs/cgroup/cpu,cpuacct",
		"name=systemd /sys/fs/cgroup/systemd",
	}},
	{"hybrid", "/system.slice/kubelet.service", []string{
		"pids /sys/fs/cgroup/pids",
		"name=systemd /sys/fs/cgroup/systemd",
		"unified /sys/fs/cgroup/unified",
	}},
	{"openrc", "/openrc.kubelet", []string{
		"name=openrc /sys/fs/cgroup/openrc",
		"cpuset /sys/fs/cgroup/with space",
	}},
	{"container", "/kubepods/kubelet", []string{
		"memory ", // only the container's part of it is mounted
		"unified /host/sys/fs/cgroup",
	}},
	{"root", "/", nil},
}

func TestSystemsAreUnderstood(t *testing.T) {
	for _, system := range systems {
		proc := filepath.Join("testdata", system.name, "proc")
		text, err := os.ReadFile(filepath.Join(proc, "1234/cgroup"))
		if err != nil {
			t.Fatal(err)
		}
		table, err := os.Open(filepath.Join(proc, "self/mountinfo"))
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		mounts, err := mountinfo.GetMountsFromReader(table, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, err := parse(string(text), mounts)
		if err != nil {
			t.Errorf("%s: %v", system.name, err)
		}
		if got := of(list); got != system.of {
			t.Errorf("%s: cgroup %q, want %q", system.name, got, system.of)
		}
		var leaves []string
		for _, m := range list {
			if !m.inRoot() {
				leaves = append(leaves, m.String()+" "+m.root)
			}
		}
		if !slices.Equal(leaves, system.leaves) {
			t.Errorf("%s: leaves %q, want %q", system.name, leaves, system.leaves)
		}
	}
}

func TestLinesThatAreNotOfTheKernelAreErrors(t *testing.T) {
	for _, line := range []string{"", "0", "0:", "0::", "0::relative", "1:cpu"} {
		if list, err := parse(line+"\n", nil); err == nil {
			t.Errorf("%q: %v", line, list)
		} else if !strings.Contains(err.Error(), "CONTROLLERS") {
			t.Errorf("%q: %v", line, err)
		}
	}
	if list, err := parse("3:a,b:/x:y/z\n", nil); err != nil || len(list) != 1 || list[0].path != "/x:y/z" {
		t.Errorf("a path with colons: %v, %v", list, err)
	}
}

func TestAProcessThatIsGoneIsAnError(t *testing.T) {
	if where, err := Of(1 << 30); err == nil {
		t.Errorf("cgroup %q of no process", where)
	} else if !strings.Contains(err.Error(), "/proc/1073741824/cgroup") {
		t.Error(err)
	}
}
