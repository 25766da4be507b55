package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// processes are the living processes of the driver. Its name is on the command
// line of its daemons; those of a replaced binary have the installation's
// directory only in the name of their executable, which /proc calls deleted.
func (d *driver) processes() []int {
	return everyProcess(func(dir string) bool {
		executable, _ := os.Readlink(filepath.Join(dir, "exe"))
		commandLine, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		return strings.HasPrefix(executable, d.root+"/") || bytes.Contains(commandLine, []byte(d.name))
	})
}

// zombies returns the processes that have ended and that their parents, of this list, have not
// waited for.
func zombies(parents []int) []int {
	return everyProcess(func(dir string) bool {
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		// PID (NAME) STATE PARENT ...; a name may have blanks and parentheses.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[0]) != "Z" {
			return false
		}
		parent, err := strconv.Atoi(string(fields[1]))
		return err == nil && slices.Contains(parents, parent)
	})
}

func everyProcess(is func(dir string) bool) (found []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && is(dir) {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found
}

// signal signals a process, and only if it is the driver's: what reported its
// PID may have been too late.
func (d *driver) signal(pid int, signal os.Signal) error {
	process, err := os.FindProcess(pid) // holds on to it, with a pidfd
	if err != nil {
		return err
	}
	defer process.Release()
	if !slices.Contains(d.processes(), pid) {
		return fmt.Errorf("process %d, which is to be sent %v, is not the driver's", pid, signal)
	}
	if err := process.Signal(signal); err != nil {
		return fmt.Errorf("send %v to process %d: %w", signal, pid, err)
	}
	return nil
}

// descriptors are what a process has open.
type descriptors []string

func descriptorsOf(pid int) (descriptors, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	open := make(descriptors, len(entries))
	for i, entry := range entries {
		target, err := os.Readlink(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		open[i] = entry.Name() + ":" + target
	}
	slices.Sort(open)
	return open, nil
}
