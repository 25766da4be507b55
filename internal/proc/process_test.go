package proc

import (
	"os"
	"testing"
	"time"
)

// A loop that waits for a process a millisecond at a time would otherwise take a processor.
func TestEndedWaits(t *testing.T) {
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	begun := time.Now()
	if p.Ended(time.Millisecond) {
		t.Error("this process has ended")
	}
	if took := time.Since(begun); took < time.Millisecond {
		t.Errorf("it has waited for %v, want %v", took, time.Millisecond)
	}
}
