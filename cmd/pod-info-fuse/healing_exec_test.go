package main_test

import (
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/e2e/stopwatch"
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

// Who asks the kernel about a process that hangs in execve(2) may hang as well. Others are healed
// meanwhile, and its own namespace when it goes on.
func TestWhoHangsInExecveKeepsNobodyFromBeingHealed(t *testing.T) {
	d := install(t)
	dir := d.mount()
	f := slowclose.Mount(t)
	hangs, _ := hangInExecve(t, f)
	container := startContainer(t, dir)
	d.killPair()
	watch := stopwatch.Start()
	said, err := d.command("restore").CombinedOutput()
	if took, late := watch.Stop(); took > 10*time.Second {
		t.Errorf("restore took %v, and %v in which the machine was late", took, late)
	}
	if got := container.read("volume/pod.uid"); got != podUID {
		t.Errorf("in another container: %q", got)
	}
	if err == nil || !strings.Contains(string(said), fmt.Sprintf("in the container of process %d", hangs)) {
		t.Errorf("restore: %v: %s", err, said)
	}
	f.Answer()
	eventually(t, "its namespace is healed", func() bool {
		said, err := d.command("restore").CombinedOutput()
		if err != nil {
			t.Logf("restore: %v: %s", err, said)
		}
		return err == nil
	})
}
