package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// coldCalls measures each call-out when there is no daemon.
func (b *bench) coldCalls(level, guest int) error {
	for _, what := range []string{"init", "mount", "unmount"} {
		if what == "unmount" {
			if _, err := b.driver.mount(guest); err != nil {
				return err
			}
		}
		if err := b.cold(level == 0 && what != "unmount"); err != nil {
			return err
		}
		c, err := b.call(what, guest)
		if err != nil {
			return fmt.Errorf("cold: %w", err)
		}
		b.cost(what, level, "cold", c)
		// There is a daemon again, also after unmount, which needs none.
		next := []string{"init"}
		if what == "mount" {
			next = []string{"unmount", b.driver.volumeOf(guest)}
		}
		if _, err := b.driver.callOut(next...); err != nil {
			return err
		}
	}
	return nil
}

// cold does away with the daemon. On a node without volumes it is stopped, as if it
// had never been; otherwise both processes die at once, so that the call-out which
// follows has to heal every volume.
func (b *bench) cold(stopped bool) error {
	if stopped {
		return b.driver.execute("stop")
	}
	pids, err := b.driver.pids()
	if err != nil {
		return err
	}
	// Stopped first, so that the one that is killed last does not replace the other.
	return errors.Join(b.signal(pids, unix.SIGSTOP), b.signal(pids, unix.SIGKILL), b.sleep(100*time.Millisecond))
}

// signal signals processes, and only the driver's: what reported their PIDs may have
// been too late.
func (b *bench) signal(pids []int, signal os.Signal) error {
	for _, pid := range pids {
		process, err := os.FindProcess(pid) // holds on to it, with a pidfd
		if err != nil {
			return err
		}
		commandLine, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if !strings.Contains(string(commandLine), b.driver.name) {
			return fmt.Errorf("process %d is not the driver's", pid)
		}
		if err := process.Signal(signal); err != nil {
			return fmt.Errorf("send %v to process %d: %w", signal, pid, err)
		}
	}
	return nil
}
