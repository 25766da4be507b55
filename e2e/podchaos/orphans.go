package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// inherit does what PID 1 has to, in a namespace of PIDs whose first process this is: it runs
// the program in another one, and waits for every orphan. A process in a pod's namespace whose
// parent was the driver's keeps that namespace from ending until somebody has waited for it.
func inherit(args []string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		println("podchaos:", err.Error())
		return 1
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == nil && pid == cmd.Process.Pid {
			if status.Exited() {
				return status.ExitStatus()
			}
			return 1
		}
	}
}
