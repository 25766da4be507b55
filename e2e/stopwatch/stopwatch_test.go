package stopwatch

import (
	"os/exec"
	"testing"
	"time"
)

// The second for which this process is stopped, as on a machine that stands still, is told
// apart from the time that something takes.
func TestTimeInWhichTheMachineStandsStillDoesNotCount(t *testing.T) {
	w := Start()
	if err := exec.Command("sh", "-c", `kill -STOP "$PPID"; sleep 1; kill -CONT "$PPID"`).Run(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	took, late := w.Stop()
	if late < 900*time.Millisecond || took+late < 1900*time.Millisecond {
		t.Errorf("of two seconds, %v count and %v do not", took, late)
	}
}
