package pod

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// When what a program has left is killed, its number is no other process's.
func TestAProgramHasItsNumberUntilWhatItHasLeftIsKilled(t *testing.T) {
	program := exec.Command("sh", "-c", "exit 7")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	pid := program.Process.Pid
	calls := 0
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		status, ended := reap(pid, func() {
			calls++
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); !strings.Contains(string(text), ") Z ") {
				t.Errorf("it is reaped: %q, %v", text, err)
			}
		})
		if !ended {
			continue
		}
		if status.ExitStatus() != 7 || calls != 1 {
			t.Errorf("status %d, %d calls", status.ExitStatus(), calls)
		}
		return
	}
	t.Error("it has not ended")
}
