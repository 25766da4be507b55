package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// onHost calls a function on a thread in the namespaces of the host; processes
// that it starts are in them, too. In a container, it needs CAP_SYS_ADMIN and the
// PID namespace of the host: privileged, and hostPID.
//
// A process that mounts, unmounts or starts the daemon must be there: only processes that
// share the mount namespace see a mount, the daemon tells the host name of its UTS namespace,
// and a network namespace or cgroup that it kept would outlive the pod.
func (t Target) onHost(f func() error) error {
	if !t.Contained {
		return f()
	}
	var err error
	proc.OnThread(func() {
		if err = enterAll(t.hostProcess()); err == nil {
			err = f()
		}
	})
	return err
}

// enterAll moves this thread into the namespaces of a process.
func enterAll(pid int) error {
	// setns refuses a thread that shares its root and working directory with others
	// (man 2 setns).
	err := os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_FS))
	for _, kind := range []string{"mnt", "uts", "ipc", "net", "cgroup"} {
		if err == nil {
			err = enter(pid, kind)
		}
	}
	if err != nil {
		return fmt.Errorf("enter the host's namespaces: %w; the container must be privileged, with hostPID", err)
	}
	return nil
}

// hostProcess finds a process in the host's namespaces: the kubelet, which calls
// drivers in its own, or PID 1 where none runs.
func (t Target) hostProcess() int {
	running, err := kubelets("/")
	if err != nil {
		return 1
	}
	for _, k := range running {
		said, _, err := k.pluginDir("/")
		if pid, errPID := strconv.Atoi(filepath.Base(k.process)); err == nil && errPID == nil && said == t.PluginDir && proc.SharesUsers(pid) {
			return pid
		}
	}
	return 1
}

// enter moves this thread into a namespace of a process, if it is not in it.
func enter(pid int, kind string) error {
	path := fmt.Sprintf("/proc/%d/ns/%s", pid, kind)
	wanted, err := os.Readlink(path)
	if err != nil {
		return err
	}
	if now, err := os.Readlink("/proc/thread-self/ns/" + kind); err != nil || now == wanted {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	return os.NewSyscallError("setns "+path, unix.Setns(fd, 0))
}
