package install

import (
	"fmt"
	"os"
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
	return proc.OnThread(func() error {
		pid := t.hostProcess()
		for _, kind := range []string{"mnt", "uts", "ipc", "net", "cgroup"} {
			if err := enter(pid, kind); err != nil {
				return fmt.Errorf("enter the host's namespaces: %w; the container must be privileged, with hostPID", err)
			}
		}
		return f()
	})
}

// hostProcess finds a process in the host's namespaces: the kubelet, which calls
// drivers in its own, or PID 1 where none runs.
func (t Target) hostProcess() int {
	for _, k := range kubelets("/") {
		said, _, err := k.pluginDir("/")
		if pid, _ := strconv.Atoi(k.pid()); err == nil && said == t.PluginDir && proc.SharesUsers(pid) {
			return pid
		}
	}
	return 1
}

// enter moves this thread into a namespace of a process, if it is in another one: to enter a
// mount namespace also changes the root directory (man 2 setns), which may be one that
// install --root has gone to.
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
