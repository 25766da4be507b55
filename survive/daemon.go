package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/selinux"
	"example.com/pod-info-fuse/survive/internal/cgroup"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// clear removes the node mount and ends the daemon, whatever state they are in. Volumes
// that are bound somewhere are dead afterwards.
//
// It does not depend on the daemon's end. The connection is aborted, which frees
// processes that wait for themselves in the kernel; and the next daemon gets a new
// daemon.lock, so that no process with a lock of the old file concerns it.
func (n daemon) clear() error {
	locks, err := n.locks()
	if err != nil {
		return err
	}
	if locks.State() > pair.Stopped {
		_ = n.pair().Stop() // one that does not listen is killed below
	}
	if err := n.abort(); err != nil {
		return err
	}
	if err := n.end(); err != nil {
		return err
	}
	for _, name := range []string{"daemon.lock", stateFile} {
		if err := os.Remove(n.path(name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// abort ends the connection of the node mount, and removes the mount.
func (n daemon) abort() error {
	point, err := openMounted(n.fsPath())
	if err != nil || point == nil {
		return err
	}
	defer point.Close()
	if err = errors.Join(point.Abort(), point.Detach()); errors.Is(err, unix.EINVAL) {
		return nil // somebody has unmounted it since it was opened
	}
	return err
}

// end waits until no process of the daemon is left, and kills those that do not end by
// themselves: the holders of the locks, and the processes in the daemon's cgroup. Without
// such a cgroup, nothing leads to a standby that has just been born: it exits when it finds
// that the connection has been aborted.
func (n daemon) end() error {
	group := n.group()
	// unseen is how often in a row no holder was seen. Once may be one that has ended since the
	// kernel named it.
	unseen := 0
	for begun := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		locks, err := n.locks()
		if err != nil {
			return err
		}
		left := group.Processes()
		if !locks.Held() && len(left) == 0 {
			n.noteGroup(nil)
			return nil
		}
		state := locks.State()
		if unseen++; state != pair.Unseen {
			unseen = 0
		}
		switch took := time.Since(begun); {
		case took < endTimeout && state > pair.Stopped, unseen == 1:
		case took > killTimeout, unseen > 0 && len(left) == 0:
			n.Log("somebody is left of the daemon that is replaced, and does not end; its locks have %s and %s, in its cgroup are processes %v",
				locks.Active, locks.Standby, left)
			return nil
		default:
			// The standby first, or it would take over.
			if err := errors.Join(n.kill(locks.Standby), n.kill(locks.Active)); err != nil {
				return err
			}
			_ = n.killAll(group, left) // a process that it cannot kill is left
		}
	}
}

// kill kills the holder of a lock, if that is a process of the daemon's. Another process may have
// the number; see pair.Holder.
func (n daemon) kill(holder pair.Holder) error {
	return n.pair().Kill(holder.PID, func() bool { return true })
}

// settle moves a process of the daemon out of the cgroup of this one, which is the kubelet's:
// systemd kills everything in it when it restarts the kubelet. It adds the new cgroup to the
// note: the daemon that the process replaces is still in the one noted before. problem says
// why the process could not be moved, and err that the note could not be written.
func (n daemon) settle(pid int) (ours cgroup.Group, problem, err error) {
	where, failed := cgroup.Escape(n.cgroupName(), pid, cgroup.MaxThreads)
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

// group returns the noted cgroups. Only the daemon and its descendants are in them.
func (n daemon) group() cgroup.Group {
	return slices.DeleteFunc(strings.Split(n.note("cgroup"), "\n"), func(dir string) bool { return dir == "" })
}

func (n daemon) noteGroup(group cgroup.Group) error {
	if len(group) == 0 {
		_ = os.Remove(n.path("cgroup"))
	} else if err := volume.WriteFile(n.path("cgroup"), []byte(strings.Join(group, "\n"))); err != nil {
		return fmt.Errorf("note the daemon's cgroup: %w", err)
	}
	return nil
}

// endBefore ends the processes in the noted cgroups of daemons that were replaced. Ours is that
// of the new one, and stays noted. Its name may have been noted before, with the same PID.
func (n daemon) endBefore(ours cgroup.Group) {
	before := slices.DeleteFunc(n.group(), func(dir string) bool { return slices.Contains(ours, dir) })
	for begun := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		left := before.Processes()
		if len(left) == 0 {
			break
		}
		if err := n.killAll(before, left); time.Since(begun) > killTimeout {
			n.Log("what the daemon before has left does not end: processes %v: %v", left, err)
			return
		}
	}
	if err := n.noteGroup(ours); err != nil {
		n.Log("%v", err) // the note names too many: no harm
	}
}

// killAll kills processes that are in a group.
func (n daemon) killAll(group cgroup.Group, pids []int) (failed error) {
	for _, pid := range pids {
		failed = errors.Join(failed, n.pair().Kill(pid, func() bool { return slices.Contains(group.Processes(), pid) }))
	}
	return failed
}

// noteCgroup notes why the daemon is still in the cgroup of the kubelet; nil: it is
// not. The note holds for its later processes, too, which are born into the same cgroup.
func (n daemon) noteCgroup(problem error) {
	if problem == nil {
		_ = os.Remove(n.path("cgroup-problem"))
	} else if err := volume.WriteFile(n.path("cgroup-problem"), []byte(problem.Error())); err != nil {
		n.Log("note the daemon's cgroup: %v", err)
	}
}

func (n daemon) Escape(pid, threads int) error {
	_, err := cgroup.Escape(n.cgroupName(), pid, threads)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("move it out of the kubelet's cgroup: %w", err)
	}
	return nil
}

func (n daemon) Died() (bool, error) {
	unlock, err := n.lockFile(os.O_RDONLY, time.Time{}, filelock.Flock(shared))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // nor is there a mount
	} else if err != nil {
		return false, fmt.Errorf("tell whether a call-out starts or ends the daemon: %w", err)
	}
	defer unlock()
	there, err := n.look()
	return there.state() == MountDead, err
}

func (n daemon) MountedLabel() (string, error) {
	point, err := openMounted(n.fsPath())
	if err != nil || point == nil {
		return "", err
	}
	defer point.Close()
	info, err := point.Info()
	if err != nil || info == nil {
		return "", err
	}
	return selinux.LabelOf(info.VFSOptions), nil
}
