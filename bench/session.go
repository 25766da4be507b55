package main

import (
	"os/exec"
	"syscall"
)

// inSession makes a command the first process of a session, as a daemon is. Linux
// may share the CPU among sessions first (sched(7), autogroup), and a pod or a daemon is not
// in one with what else runs. A server that shared its reader's would be let run by the
// kernel at other times than the driver's daemon.
func inSession(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}
