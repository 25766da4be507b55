package mounter

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// The processes of a pod are those in its cgroup and in the cgroups of its containers, and nobody
// else.
func TestProcessesOfAPod(t *testing.T) {
	w := &world{t: t}
	dir := filepath.Dir(w.podGroup(podUID))
	deep := filepath.Join(dir, "container", "of its own")
	must(t, os.MkdirAll(deep, 0o755))
	t.Cleanup(func() {
		for _, group := range []string{deep, filepath.Dir(deep)} {
			eventually(t, "nobody is in the cgroup", func() bool { return unix.Rmdir(group) == nil })
		}
	})
	var want []int
	for _, group := range []string{dir, filepath.Dir(deep), deep} {
		pid := sleeperIn(t, filepath.Join(group, "cgroup.procs"))
		want = append(want, pid)
		if got := groupOf(pid); got != dir {
			t.Errorf("the pod's cgroup of a process in %s is %q", group, got)
		}
	}
	got, err := processesIn(dir)
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if group := groupOf(os.Getpid()); group != "" {
		t.Errorf("this process is in a pod: %q", group)
	}
}

// sleeperIn starts a process in a cgroup, by its file cgroup.procs, until the test ends.
func sleeperIn(t *testing.T, procs string) int {
	t.Helper()
	pipe, w, err := os.Pipe()
	must(t, err)
	defer pipe.Close()
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", `echo $$ > "$0" && echo && exec sleep 3600`, procs},
		&os.ProcAttr{Files: []*os.File{nil, w, os.Stderr}})
	w.Close()
	must(t, err)
	t.Cleanup(func() {
		_ = p.Kill()
		_, _ = p.Wait()
	})
	_, err = pipe.Read(make([]byte, 1))
	must(t, err)
	return p.Pid
}
