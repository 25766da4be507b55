package main

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

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

// besideServer has this thread run on one CPU with a server, where what is woken takes the place
// of who woke it, until back is called.
func besideServer(s *server) (back func() error, err error) {
	cpu, err := oneCPU()
	if err != nil {
		return nil, err
	}
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	one.Set(cpu)
	runtime.LockOSThread()
	return func() error {
		defer runtime.UnlockOSThread()
		return errors.Join(unix.SchedSetaffinity(0, &before), place(s.pids, anywhere))
	}, errors.Join(unix.SchedSetaffinity(0, &one), place(s.pids, cpu))
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
