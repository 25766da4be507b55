package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// machine is what this is.
func machine() string {
	var name unix.Utsname
	_ = unix.Uname(&name) // cannot fail
	processor := "a model that is not known"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if field, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(field) == "model name" {
			processor = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s %s %s, %d CPUs, %s", unix.ByteSliceToString(name.Sysname[:]), unix.ByteSliceToString(name.Release[:]),
		unix.ByteSliceToString(name.Machine[:]), runtime.NumCPU(), processor)
}

// cpu is how busy the machine's CPUs were, with whatever runs there.
type cpu struct {
	mu     sync.Mutex // guards shares
	shares []float64
}

// watchCPU looks until the context ends.
func watchCPU(ctx context.Context, every time.Duration) *cpu {
	c := new(cpu)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		text, _ := os.ReadFile("/proc/stat")
		idle, all := ticks(string(text))
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			text, _ := os.ReadFile("/proc/stat")
			nowIdle, nowAll := ticks(string(text))
			if nowAll > all {
				c.mu.Lock()
				c.shares = append(c.shares, 1-(nowIdle-idle)/(nowAll-all))
				c.mu.Unlock()
			}
			idle, all = nowIdle, nowAll
		}
	}()
	return c
}

// busy is the median share of the looks.
func (c *cpu) busy() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.shares) == 0 {
		return 0
	}
	slices.Sort(c.shares)
	return c.shares[len(c.shares)/2]
}

// ticks are those in which the CPUs had nothing to do, and all (man 5 proc_stat).
func ticks(stat string) (idle, all float64) {
	line, _, _ := strings.Cut(stat, "\n")
	var user, nice, system, idling, waiting, irq, softirq, stolen float64
	_, err := fmt.Sscanf(line, "cpu %f %f %f %f %f %f %f %f", &user, &nice, &system, &idling, &waiting, &irq, &softirq, &stolen)
	if err != nil {
		return 0, 0
	}
	idle = idling + waiting
	return idle, idle + user + nice + system + irq + softirq + stolen
}
