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
	return task{file: file, threads: threads, cpu: cpu}.run(b, length)
}

// task is what a client does.
type task struct {
	file    string
	threads int
	cpu     int           // or anywhere
	list    bool          // it lists a directory
	pause   time.Duration // after each time
}

func (t task) run(b *bench, length time.Duration) (r reading, err error) {
	output, err := t.command(b, length).Output()
	if err != nil {
		return r, fmt.Errorf("the client: %w", err)
	}
	return r, json.Unmarshal(output, &r)
}

func (t task) command(b *bench, length time.Duration) *exec.Cmd {
	args := []string{"/proc/self/exe", "client", "--file", t.file, "--threads", strconv.Itoa(t.threads),
		"--list=" + strconv.FormatBool(t.list), "--pause", t.pause.String(), "--length", length.String()}
	if self, err := os.Executable(); err == nil {
		args[0] = self
	}
	if t.cpu != anywhere {
		args = append([]string{"taskset", "-c", strconv.Itoa(t.cpu)}, args...)
	}
	cmd := inSession(exec.CommandContext(b.ctx, args[0], args[1:]...))
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	return cmd
}
