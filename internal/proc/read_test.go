package proc

import (
	"os"
	"slices"
	"testing"
)

func TestPIDs(t *testing.T) {
	pids, err := PIDs()
	if err != nil || !slices.Contains(pids, os.Getpid()) || !slices.Contains(pids, 1) {
		t.Errorf("%v, %v", pids, err)
	}
}
