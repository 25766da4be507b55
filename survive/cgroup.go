package survive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/pod-info-fuse/survive/internal/cgroup"
	"example.com/pod-info-fuse/survive/volume"
)

// The daemon gets a cgroup of its own, where the node allows it. RUN/cgroup notes which one,
// so that its unknown children can be found and ended, also long after its death.

// settle moves a process of the daemon out of the cgroup of this one, which is the kubelet's:
// systemd kills everything in it when it restarts the kubelet. It adds the new cgroup to the
// note: the daemon that the process replaces is still in the one noted before. problem says
// why the process could not be moved, and err that the note could not be written.
func (n Node) settle(pid int) (ours cgroup.Group, problem, err error) {
	where, failed := cgroup.Escape(context.Background(), n.cgroupName(), pid, cgroup.MaxThreads)
	if errors.Is(failed, os.ErrProcessDone) {
		return nil, nil, nil // who started it says that it died
	}
	if failed != nil {
		n.Log("move it out of the kubelet's cgroup: %v", failed)
	}
	if where == "" {
		problem = failed
	} else {
		n.Log("its cgroup is %s", where)
	}
	ours = cgroup.GroupOf(n.cgroupName(), pid)
	return ours, problem, n.noteGroup(append(n.group(), ours...))
}

// Escape moves a process of a companion's, which has no children yet, out of the cgroup of this
// one, which is the kubelet's, into one of its own. Without that, it lives until systemd restarts
// the kubelet. It and those that it starts may have so many threads.
func (n Node) Escape(pid, threads int) error {
	_, err := cgroup.Escape(context.Background(), n.cgroupName(), pid, threads)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("move it out of the kubelet's cgroup: %w", err)
	}
	return nil
}

// group returns the noted cgroups. Only the daemon and its descendants are in them.
func (n Node) group() cgroup.Group {
	note, _ := os.ReadFile(n.path("cgroup"))
	return slices.DeleteFunc(strings.Split(string(note), "\n"), func(dir string) bool { return dir == "" })
}

func (n Node) noteGroup(group cgroup.Group) error {
	if len(group) == 0 {
		_ = os.Remove(n.path("cgroup"))
	} else if err := volume.WriteFile(n.path("cgroup"), []byte(strings.Join(group, "\n"))); err != nil {
		return fmt.Errorf("note the daemon's cgroup: %w", err)
	}
	return nil
}

// endBefore ends the processes in the noted cgroups of daemons that were replaced. Ours is that
// of the new one, and stays noted. Its name may have been noted before, with the same PID.
func (n Node) endBefore(ours cgroup.Group) {
	before := slices.DeleteFunc(n.group(), func(dir string) bool { return slices.Contains(ours, dir) })
	for begun := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		left := before.Processes()
		if len(left) == 0 {
			break
		}
		if err := n.killAll(before, left); time.Since(begun) > stubborn {
			n.Log("what the daemon before has left does not end: processes %v: %v", left, err)
			return
		}
	}
	if err := n.noteGroup(ours); err != nil {
		n.Log("%v", err) // the note names too many: no harm
	}
}

// killAll kills processes that are in a group.
func (n Node) killAll(group cgroup.Group, pids []int) (failed error) {
	for _, pid := range pids {
		failed = errors.Join(failed, n.pair().Kill(pid, func() bool { return slices.Contains(group.Processes(), pid) }))
	}
	return failed
}

// noteCgroup notes why the daemon is still in the cgroup of the kubelet; nil: it is
// not. The note holds for its later processes, too, which are born into the same cgroup.
func (n Node) noteCgroup(problem error) {
	if problem == nil {
		_ = os.Remove(n.path("cgroup-problem"))
	} else if err := volume.WriteFile(n.path("cgroup-problem"), []byte(problem.Error())); err != nil {
		n.Log("note the daemon's cgroup: %v", err)
	}
}

func (n Node) cgroupProblem() string {
	note, _ := os.ReadFile(n.path("cgroup-problem"))
	return string(note)
}
