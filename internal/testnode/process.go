package testnode

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Process is one that a test starts beside the driver, and speaks with in lines.
type Process struct {
	T      *testing.T
	PID    int
	Stdin  io.WriteCloser
	Stdout *bufio.Reader
}

// Started starts a process that says when it is ready. When the test ends, so does its
// standard input, and the test waits until the process has ended.
func Started(t *testing.T, command *exec.Cmd) *Process {
	t.Helper()
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if command.Stderr == nil {
		command.Stderr = os.Stderr
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); command.Wait() })
	p := &Process{t, command.Process.Pid, stdin, bufio.NewReader(stdout)}
	if line := p.Line(); line != "ready" {
		t.Fatalf("%q says %q", command.Args, line)
	}
	return p
}

// Line is the next one that the process says.
func (p *Process) Line() string {
	p.T.Helper()
	line, err := p.Stdout.ReadString('\n')
	if err != nil {
		p.T.Fatalf("process %d says %q: %v", p.PID, line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// Does tells the process something, and returns what it says to that.
func (p *Process) Does(format string, args ...any) string {
	p.T.Helper()
	fmt.Fprintf(p.Stdin, format+"\n", args...)
	return p.Line()
}
