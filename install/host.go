package install

import (
	"fmt"
	"strconv"

	"example.com/pod-info-fuse/internal/proc"
)

// onHost calls a function on a thread in the namespaces of the host; processes
// that it starts are in them, too. In a container, it needs CAP_SYS_ADMIN and the
// PID namespace of the host: privileged, and hostPID.
func (t Target) onHost(f func() error) error {
	if !t.Contained {
		return f()
	}
	return proc.OnThread(func() error {
		if err := proc.Join(t.hostProcess()); err != nil {
			return fmt.Errorf("enter the host's namespaces: %w; the container must be privileged, with hostPID", err)
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
