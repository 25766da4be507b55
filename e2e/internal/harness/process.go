package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A Process is a server that the tests started; it is only ever signalled by
// the pid that it was started with.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process was waited for
}

// environment is a variable that all processes of the node inherit and no other
// process has.
func (n *Node) environment() string { return "E2E_NODE=" + n.Dir }

// StartProcess starts a server of the node and appends its output to its log.
func (n *Node) StartProcess(server string, argv ...string) (*Process, error) {
	out, err := os.OpenFile(n.Log(server), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", server, err)
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), n.environment())
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", server, err)
	}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Running tells with an error that the process has ended by itself.
func (p *Process) Running() error {
	select {
	case <-p.exited:
		return HopelessError{fmt.Errorf("%s ended: %v", filepath.Base(p.cmd.Path), p.cmd.ProcessState)}
	default:
		return nil
	}
}

// Stop sends sig and waits for the end, with SIGKILL after the limit.
func (p *Process) Stop(sig syscall.Signal, limit time.Duration) error {
	if p == nil || p.Running() != nil {
		return nil
	}
	p.cmd.Process.Signal(sig)
	select {
	case <-p.exited:
		return nil
	case <-time.After(limit):
	}
	p.cmd.Process.Kill()
	<-p.exited
	return fmt.Errorf("%s (pid %d) had to be killed: %v had not ended it after %v",
		filepath.Base(p.cmd.Path), p.cmd.Process.Pid, sig, limit)
}
