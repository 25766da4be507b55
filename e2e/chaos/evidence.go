package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// evidence is what may tell why something went wrong: what the driver says, and what the
// kernel says of it.
type evidence struct {
	driver *driver

	mu   sync.Mutex // guards what follows
	read int        // so many bytes of the log were shown
}

// look describes the driver in this moment. It asks no file system that may be dead.
func (e *evidence) look() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var text strings.Builder
	for _, pid := range e.driver.processes() {
		text.WriteString(describe(pid))
	}
	for _, connection := range e.driver.connections() {
		fmt.Fprintf(&text, "connection %d: %s requests wait\n", connection, waiting(connection))
	}
	fmt.Fprintf(&text, "status: %s\n", e.status())
	fmt.Fprintf(&text, "the log since it was shown last, or the end of that:\n%s", strings.Join(e.log(), ""))
	return "\t" + strings.ReplaceAll(strings.TrimSpace(text.String()), "\n", "\n\t") + "\n"
}

// status returns what the command status prints, if it answers within seconds.
func (e *evidence) status() string {
	const soon = 5 * time.Second
	said := make(chan string, 1)
	go func() {
		output, err := e.driver.execute("status", "-o", "json")
		said <- fmt.Sprintf("%s (%v)", strings.Join(strings.Fields(string(output)), " "), err)
	}()
	select {
	case text := <-said:
		return text
	case <-time.After(soon):
		return fmt.Sprintf("none within %v", soon)
	}
}

// log is the end of what was written since.
func (e *evidence) log() []string {
	all, err := os.ReadFile(e.driver.log())
	if err != nil {
		return []string{err.Error()}
	}
	since := all[min(e.read, len(all)):]
	e.read = len(all)
	lines := slices.Collect(strings.Lines(string(since)))
	const most = 30
	return lines[max(0, len(lines)-most):]
}

// describe tells what each thread of a process does, as far as the kernel does.
func describe(pid int) string {
	var text strings.Builder
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		status, _ := os.ReadFile(filepath.Join(task, "status"))
		var state, pending string
		for line := range strings.Lines(string(status)) {
			switch name, value, _ := strings.Cut(line, ":"); name {
			case "State":
				state = strings.TrimSpace(value)
			case "SigPnd", "ShdPnd":
				pending += " " + strings.TrimSpace(value)
			}
		}
		// The kernel may not have been built to tell.
		stack, _ := os.ReadFile(filepath.Join(task, "stack"))
		calls := strings.Fields(strings.ReplaceAll(string(stack), "[<0>]", ""))
		fmt.Fprintf(&text, "%s: %s, signals pending:%s, in %s\n", task, state, pending, strings.Join(calls[:min(3, len(calls))], " "))
	}
	return text.String()
}

// connections are the numbers of those of the driver's mounts.
func (d *driver) connections() (all []uint64) {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if !strings.Contains(line, " "+d.name+" ") {
			continue
		}
		var major, minor uint32
		_, err := fmt.Sscanf(strings.Fields(line)[2], "%d:%d", &major, &minor)
		if number := unix.Mkdev(major, minor); err == nil && !slices.Contains(all, number) {
			all = append(all, number)
		}
	}
	return all
}

// waiting is how many requests of a connection are not answered, or why that cannot be
// told (Documentation/filesystems/fuse.rst). What tells it need not be mounted anywhere.
func waiting(connection uint64) string {
	context, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return err.Error()
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(mount)
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/%d/waiting", mount, connection))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}
