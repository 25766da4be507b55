package main

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// taken is the time that a virtual machine's host has kept its CPUs from it so far, all
// of them together (proc_stat(5), steal).
func taken() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	var name string
	var user, nice, system, idle, ioWait, irq, softIRQ, steal int64
	_, _ = fmt.Sscan(string(text), &name, &user, &nice, &system, &idle, &ioWait, &irq, &softIRQ, &steal)
	const tick = 10 * time.Millisecond // USER_HZ is 100
	return time.Duration(steal) * tick
}

// share is how much of all CPUs that is, in per cent, since some time.
func share(taken time.Duration, since time.Time) float64 {
	return 100 * float64(taken) / float64(runtime.NumCPU()) / float64(time.Since(since))
}
