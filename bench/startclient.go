package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// anywhere is for a client that runs on every CPU.
const anywhere = -1

// runClient has a process read a file for some time, on one CPU or anywhere.
func (b *bench) runClient(file string, threads int, length time.Duration, cpu int) (r reading, err error) {
	cmd := b.clientCommand(file, threads, length, cpu)
	output, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("the client: %w", err)
	}
	return r, json.Unmarshal(output, &r)
}

func (b *bench) clientCommand(file string, threads int, length time.Duration, cpu int) *exec.Cmd {
	args := []string{"/proc/self/exe", "client", "--file", file, "--threads", strconv.Itoa(threads), "--length", length.String()}
	if self, err := os.Executable(); err == nil {
		args[0] = self
	}
	if cpu != anywhere {
		args = append([]string{"taskset", "-c", strconv.Itoa(cpu)}, args...)
	}
	cmd := inSession(exec.CommandContext(b.ctx, args[0], args[1:]...))
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	return cmd
}
