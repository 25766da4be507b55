package survive

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Where the run directory has no space for a state, what was written of it does not keep others
// out.
func TestAStateThatDoesNotFitLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("run", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	n := Node{Driver: Driver{State: mostState}, RunDir: dir}
	if _, _, err := n.openState(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("it does not fail: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
