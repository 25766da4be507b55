package main_test

import (
	"fmt"
	"os/exec"
	"sync/atomic"
	"testing"
)

// Probes that are executed in a container come and go while it is healed. By the one
// that is met, nobody must take the container for one that has ended.
func TestAContainerIsHealedWhateverEndsInIt(t *testing.T) {
	d := install(t)
	dir := d.mount()
	container := startContainer(t, dir)
	var ended atomic.Bool
	done := make(chan bool)
	go func() {
		defer close(done)
		for !ended.Load() {
			_ = exec.Command("nsenter", "--mount", "--target", fmt.Sprint(container.pid), "sleep", "0.002").Run()
		}
	}()
	defer func() { ended.Store(true); <-done }()
	for round := range 25 {
		d.killPair()
		eventually(t, fmt.Sprintf("it is healed after loss %d", round+1), func() bool {
			d.must("init")
			return container.read("volume/pod.uid") == podUID
		})
	}
}
