package survive_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// The memory of requests is there and stays, in the standby before it is needed: where
// the kernel has to look for a page while the process is being killed, a reader gets EIO.
func TestBothProcessesHaveTheirBuffersLocked(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	check := func(when string) {
		t.Helper()
		active, standby := d.Pair()
		for _, pid := range []int{active, standby} {
			locked := lockedMapping(t, pid)
			if all := locked["Size"]; locked["Rss"] != all || locked["Locked"] != all {
				t.Errorf("%s, process %d: of %s, %s are there and %s are locked", when, pid, all, locked["Rss"], locked["Locked"])
			}
			if flags := " " + locked["VmFlags"] + " "; !strings.Contains(flags, " nh ") {
				t.Errorf("%s, process %d: may be gathered into huge pages: flags %q", when, pid, flags)
			}
		}
	}
	check("started")
	active, _ := d.Pair()
	testnode.Kill(t, active)
	check("after a crash")
	d.ReplaceBinary(testnode.Newer)
	d.Must("init")
	check("upgraded")
}

// lockedMapping is what /proc/PID/smaps says of the process's one mapping that is locked.
func lockedMapping(t *testing.T, pid int) map[string]string {
	t.Helper()
	var found []map[string]string
	fields := map[string]string{}
	for line := range strings.Lines(testnode.Read(t, fmt.Sprintf("/proc/%d/smaps", pid))) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.Join(strings.Fields(value), " ")
		if name == "VmFlags" { // the last line of each
			if strings.Contains(" "+fields[name]+" ", " lo ") {
				found = append(found, fields)
			}
			fields = map[string]string{}
		}
	}
	if len(found) != 1 {
		t.Fatalf("process %d has locked %d mappings, want one", pid, len(found))
	}
	return found[0]
}

// A node may allow no memory to be locked.
func TestVolumesAreServedWhereNoMemoryCanBeLocked(t *testing.T) {
	d := testnode.Install(t)
	log := filepath.Join(t.TempDir(), "log")
	testnode.Configure(t, d, fmt.Sprintf(`{"log": %q}`, log))
	dir := t.TempDir()
	command := d.Command("mount", dir, testnode.GoodOptions)
	command.Args = append([]string{"sh", "-c", `ulimit -l 0 && exec "$@"`, "sh"}, command.Args...)
	command.Path = "/bin/sh"
	if a := d.Run(command); a.Status != "Success" {
		t.Fatalf("mount: %+v", a)
	}
	if got := testnode.Read(t, filepath.Join(dir, "pod.uid")); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.Pair()
	if !strings.Contains(testnode.Read(t, log), "bytes of memory: operation not permitted") {
		t.Errorf("the log does not say that no memory can be locked:\n%s", testnode.Read(t, log))
	}
}
