package stopwatch

import (
	"os/exec"
	"testing"
	"time"
)

// The time for which this process is stopped, as on a machine that stands still, is told apart
// from the time that something takes.
func TestTimeInWhichTheMachineStandsStillDoesNotCount(t *testing.T) {
	w := Start()
	if err := exec.Command("sh", "-c", `kill -STOP "$PPID"; sleep .3; kill -CONT "$PPID"`).Run(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	took, late := w.Stop()
	if late < 250*time.Millisecond || took+late < 500*time.Millisecond {
		t.Errorf("of half a second, %v count and %v do not", took, late)
	}
}
