package survive

import (
	"errors"
	"testing"

	"example.com/pod-info-fuse/internal/mount"
)

// A container that is being made leaves the node's mounts between two looks of a healing: what
// could not be healed for that is not told.
func TestWhatCouldNotBeHealedIsToldIfItIsStillThere(t *testing.T) {
	healed := []Healed{{Path: "/gone", Err: errors.New("no such file or directory")}, {Path: "/", Err: mount.ErrGone}, {Path: "/healed"}}
	if left := (healing{}).withoutGone(healed, mount.Own(), dead{}); len(left) != 1 || left[0].Path != "/healed" {
		t.Errorf("%v", left)
	}
}
