package survive

import (
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
)

// A container that is being made leaves the node's mounts between two looks of a healing: what
// could not be healed for that is not told.
func TestWhatAHealerDidNotFindIsToldIfItIsStillThere(t *testing.T) {
	_, err := mount.Open("/no/such/directory")
	for told, want := range map[string]struct {
		is   error
		left int
	}{
		err.Error():               {fs.ErrNotExist, 0},
		mount.ErrGone.Error():     {mount.ErrGone, 1},
		unix.EACCES.Error():       {nil, 1},
		"signal: killed":          {nil, 1},
		"no such file or directo": {nil, 1},
	} {
		err := healerError(told)
		if want.is != nil && !errors.Is(err, want.is) {
			t.Errorf("%q: %v is not %v", told, err, want.is)
		}
		healed := []Healed{{Path: "/no/such/directory", Err: err}}
		if left := (healing{}).withoutUnmounted(healed, mount.Own(), dead{}); len(left) != want.left {
			t.Errorf("%q: %v", told, left)
		}
	}
}
