// Package machine tells what figures were measured on.
package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Kernel is its name, its release and its architecture.
func Kernel() string {
	var name unix.Utsname
	_ = unix.Uname(&name) // cannot fail
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:])
}

// Processor is the model of the CPU.
func Processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "model unknown"
}

// Ticks are what all CPUs together have spent since the machine's start, in hundredths of a second:
// with nothing to do, in all, and taken from it by a virtual machine's host (man 5 proc_stat).
func Ticks() (idle, all, stolen int64) {
	text, _ := os.ReadFile("/proc/stat")
	return ticksOf(string(text))
}

func ticksOf(stat string) (idle, all, stolen int64) {
	var name string
	var user, nice, system, idling, waiting, irq, softirq int64
	_, err := fmt.Sscan(stat, &name, &user, &nice, &system, &idling, &waiting, &irq, &softirq, &stolen)
	if err != nil {
		return 0, 0, 0
	}
	idle = idling + waiting
	return idle, idle + user + nice + system + irq + softirq + stolen, stolen
}
