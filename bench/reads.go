package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// target is a file of a server.
type target struct {
	server *server
	file   string
}

// name is a target's name in figures.
func (t target) name() string { return t.server.name + " " + t.file }

// anywhere is for a client that runs on every CPU.
const anywhere = -1

// reads measures every target in every round, with each number of threads.
func (b *bench) reads(targets []target) error {
	cpu, err := oneCPU()
	if err != nil {
		return err
	}
	for range b.settings.readRounds {
		for _, pinned := range []bool{true, false} {
			where := anywhere
			if pinned {
				where = cpu
			}
			for _, t := range targets {
				if err := place(t.server.pids, where); err != nil {
					return err
				}
			}
			for _, threads := range b.settings.threads {
				for _, t := range targets {
					if err := b.read(t, threads, where); err != nil {
						return fmt.Errorf("%s: %w", t.name(), err)
					}
				}
			}
		}
	}
	return nil
}

// read measures one target.
func (b *bench) read(t target, threads, cpu int) error {
	before, err := countersOf(t.server.pids)
	if err != nil {
		return err
	}
	r, err := b.runClient(t.server.files[t.file], threads, b.settings.readLength, cpu)
	if err != nil {
		return err
	}
	after, err := countersOf(t.server.pids)
	if err != nil {
		return err
	}
	n := float64(r.Operations)
	for measure, value := range map[string]float64{
		"rate": n / r.Seconds, "p50": r.P50, "p99": r.P99,
		"cpu":      (after.cpu - before.cpu) / n,
		"requests": float64(after.replies-before.replies) / n,
		"switches": float64(after.switches-before.switches+r.Switches) / n,
	} {
		b.figures.add(readName(t.name(), threads, cpu != anywhere, measure), value)
	}
	return nil
}

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
	cmd := exec.CommandContext(b.ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	return cmd
}

// oneCPU is the last that we may use: the first has more interrupts.
func oneCPU() (int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0, err
	}
	for cpu := len(set)*64 - 1; cpu >= 0; cpu-- {
		if set.IsSet(cpu) {
			return cpu, nil
		}
	}
	return 0, errors.New("there is no CPU")
}

// place has all threads of processes run on one CPU, or where we may run.
func place(pids []int, cpu int) error {
	where := strconv.Itoa(cpu)
	if cpu == anywhere {
		var all unix.CPUSet
		if err := unix.SchedGetaffinity(0, &all); err != nil {
			return err
		}
		where = list(all)
	}
	for _, pid := range pids {
		if output, err := exec.Command("taskset", "-a", "-p", "-c", where, strconv.Itoa(pid)).CombinedOutput(); err != nil {
			return fmt.Errorf("taskset: %w: %s", err, output)
		}
	}
	return nil
}

// list is a set of CPUs as taskset reads it.
func list(set unix.CPUSet) (text string) {
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			text += "," + strconv.Itoa(cpu)
		}
	}
	return text[1:]
}
