package pair

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// The kernel says -1 of a lock of an open file description. To kill that is to kill all.
func TestALockOfNoProcessNamesNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "daemon.lock")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lock := byteLock(unix.F_WRLCK, activeByte)
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	locks, err := Place{Lock: path}.Find()
	if want := (Locks{Active: Holder{Held: true}}); err != nil || locks != want {
		t.Errorf("%+v, %v; want %+v", locks, err, want)
	}
}

func TestStateOfWhoHasALock(t *testing.T) {
	const status = "Name:\tpod-info-fuse\nState:\tS (sleeping)\nUid:\t4200000001\t4200000001\t4200000001\t4200000001\n" +
		"SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n"
	for _, row := range []struct {
		old, mutation string
		want          State
	}{
		{"", "", Alive},
		{"S (sleeping)", "R (running)", Alive},
		{"S (sleeping)", "D (disk sleep)", Alive},
		{"S (sleeping)", "T (stopped)", Stopped},
		{"S (sleeping)", "t (tracing stop)", Stopped},
		{"S (sleeping)", "Z (zombie)", Dead},
		{"SigPnd:\t0000000000000000", "SigPnd:\t0000000000000100", Dead},
		{"ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000000100", Dead},
		{"Uid:\t4200000001", "Uid:\t0", Unseen},
		{status, "", Unseen},
	} {
		if got := stateOf(proc.ParseStatus(strings.Replace(status, row.old, row.mutation, 1)), 4200000001); got != row.want {
			t.Errorf("with %q: %v, want %v", row.mutation, got, row.want)
		}
	}
}
