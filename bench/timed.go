package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// cost is what a process costs, from its start to its end, in milliseconds.
type cost struct{ wall, cpu float64 }

// ownCgroup is for everything that can start a daemon. In a cgroup namespace of its
// own, the cgroup that we are in is the root, which the daemon need not leave: here
// that would take it out of whatever limits this program is run with. What is
// compared is started in the same way.
func ownCgroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
}

// timed runs a program to its end. What it prints goes to a file, as no goroutine
// must run while it does, to empty a pipe.
func timed(program string, args ...string) (cost, []byte, error) {
	output, err := os.CreateTemp("", "bench-output-")
	if err != nil {
		return cost{}, nil, err
	}
	defer output.Close()
	if err := os.Remove(output.Name()); err != nil {
		return cost{}, nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = ownCgroup()
	began := time.Now()
	err = cmd.Run()
	c := cost{wall: milliseconds(time.Since(began))}
	if cmd.ProcessState != nil {
		c.cpu = milliseconds(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	}
	if _, err := output.Seek(0, io.SeekStart); err != nil {
		return c, nil, err
	}
	text, _ := io.ReadAll(output)
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", program, err, text)
	}
	return c, text, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
