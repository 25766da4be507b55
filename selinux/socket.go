package selinux

import (
	"os"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// This file needs few system calls, for processes behind a filter. The library for SELinux needs
// more.

// SocketLabel is that of a process to whose sockets every container may connect: of a privileged
// container (container-selinux, container_spc_stream_connect).
const SocketLabel = "system_u:system_r:spc_t:s0"

// Enabled tells whether labels can be used. It is also true while the kernel has no policy yet, and
// refuses every label.
func Enabled() bool {
	var stat unix.Statfs_t
	return unix.Statfs("/sys/fs/selinux", &stat) == nil && stat.Type == unix.SELINUX_MAGIC
}

// LabelSocket calls a function that makes a socket. The socket gets the label, as if a process of
// that label had made it: a client needs the right to connect to such a process. An error says that
// the policy does not know the label, or does not let this process use it.
func LabelSocket(label string, socket func() error) error {
	return proc.OnThread(func() error { // with which it ends
		file, err := os.OpenFile("/proc/thread-self/attr/sockcreate", os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		if _, err := file.WriteString(label); err != nil {
			return err
		}
		return socket()
	})
}
