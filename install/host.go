package install

import "example.com/pod-info-fuse/internal/proc"

// onHost calls a function that executes the driver: in a container, on a thread in the node's
// namespaces. That needs CAP_SYS_ADMIN and the PID namespace of the host: privileged, and hostPID.
func (t Target) onHost(f func() error) error {
	if !t.Contained {
		return f()
	}
	return proc.OnNode(f)
}
