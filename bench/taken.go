package main

import (
	"runtime"
	"time"

	"example.com/pod-info-fuse/bench/machine"
)

// taken is the time that a virtual machine's host has kept its CPUs from it so far, all
// of them together (proc_stat(5), steal).
func taken() time.Duration {
	_, _, stolen := machine.Ticks()
	const tick = 10 * time.Millisecond // USER_HZ is 100
	return time.Duration(stolen) * tick
}

// share is how much of all CPUs that is, in per cent, since some time.
func share(taken time.Duration, since time.Time) float64 {
	return 100 * float64(taken) / float64(runtime.NumCPU()) / float64(time.Since(since))
}
