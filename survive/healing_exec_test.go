package survive_test

import (
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/testnode"
)

// Probes that are executed in a container come and go while it is healed. By the one
// that is met, nobody must take the container for one that has ended.
func TestAContainerIsHealedWhateverEndsInIt(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	container := startContainer(t, dir)
	var ended atomic.Bool
	done := make(chan bool)
	go func() {
		defer close(done)
		for !ended.Load() {
			_ = exec.Command("nsenter", "--mount", "--target", fmt.Sprint(container.PID), "sleep", "0.002").Run()
		}
	}()
	defer func() { ended.Store(true); <-done }()
	for round := range 25 {
		d.KillPair()
		testnode.Eventually(t, fmt.Sprintf("it is healed after loss %d", round+1), func() bool {
			d.Must("init")
			return container.read("volume/pod.uid") == testnode.PodUID
		})
	}
}

// Who asks the kernel about a process that hangs in execve(2) may hang as well. Others are healed
// meanwhile, and its own namespace when it goes on.
func TestWhoHangsInExecveKeepsNobodyFromBeingHealed(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	f := slowclose.Mount(t)
	hangs, _ := hangInExecve(t, f)
	container := startContainer(t, dir)
	d.KillPair()
	watch := stopwatch.Start()
	said, err := d.Command("restore").CombinedOutput()
	if took, late := watch.Stop(); took > 10*time.Second {
		t.Errorf("restore took %v, and %v in which the machine was late", took, late)
	}
	if got := container.read("volume/pod.uid"); got != testnode.PodUID {
		t.Errorf("in another container: %q", got)
	}
	if err == nil || !strings.Contains(string(said), fmt.Sprintf("in the container of process %d", hangs)) {
		t.Errorf("restore: %v: %s", err, said)
	}
	f.Answer()
	testnode.Eventually(t, "its namespace is healed", func() bool {
		said, err := d.Command("restore").CombinedOutput()
		if err != nil {
			t.Logf("restore: %v: %s", err, said)
		}
		return err == nil
	})
}
