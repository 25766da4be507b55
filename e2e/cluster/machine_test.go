//go:build cluster

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// root is the environment variable with the directory that becomes the machine's
// root directory.
const root = "E2E_CLUSTER_ROOT"

const machinePrefix = "e2e-cluster-"

// runMachine runs the machine, and finds what it left.
func runMachine() int {
	code, err := machine()
	if err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: %v\n", err)
		return 1
	}
	return code
}

func machine() (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("a kubelet needs root")
	}
	before, err := look()
	if err != nil {
		return 1, err
	}
	pods := harness.PodCgroups()
	dir, err := os.MkdirTemp("", machinePrefix)
	if err != nil {
		return 1, err
	}
	defer func() {
		// Containers that were killed with the machine have left theirs.
		_, left := harness.RemovePodCgroups(pods)
		if kept() { // nobody has uninstalled the drivers
			left = errors.Join(left, before.removeDriverCgroups())
		}
		err = errors.Join(err, left, os.Remove(dir), before.compare())
	}()
	return runFirst(dir)
}

// runFirst runs the machine's first process. When it ends, the kernel kills the
// others; when this process dies, of whatever, it is killed itself.
func runFirst(dir string) (int, error) {
	interrupted, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	first := exec.Command("/proc/self/exe", os.Args[1:]...)
	first.Env = append(os.Environ(), stage+"=init", root+"="+dir)
	first.Stdout, first.Stderr = os.Stdout, os.Stderr
	first.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setpgid:    true,
		Pdeathsig:  syscall.SIGKILL,
	}
	// It is the death of the thread that counts: prctl(2), PR_SET_PDEATHSIG.
	runtime.LockOSThread()
	if err := first.Start(); err != nil {
		return 1, fmt.Errorf("start the machine: %w", err)
	}
	if kept() {
		if err := writeNodeShell(first.Process.Pid); err != nil {
			first.Process.Kill()
			return 1, errors.Join(err, first.Wait())
		}
		defer os.Remove(nodeShell)
	}
	context.AfterFunc(interrupted, func() { first.Process.Kill() })
	err := first.Wait()
	switch {
	case first.ProcessState.Exited():
		return first.ProcessState.ExitCode(), nil
	case kept() && interrupted.Err() != nil:
		return 0, nil
	}
	return 1, fmt.Errorf("the machine's first process: %w", err)
}
