package survive

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
)

// watchedCompanion tells whether the run directory is locked whenever it is to be started.
type watchedCompanion struct {
	n                Node
	locked, unlocked *int
}

func (w watchedCompanion) Ensure() (string, error) {
	lock, err := os.Open(w.n.path("lock"))
	if err == nil {
		defer lock.Close()
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EAGAIN) {
		*w.locked++
	} else {
		*w.unlocked++
	}
	return "another", nil
}

func (w watchedCompanion) Identity() (string, error) { return "", nil }

func (w watchedCompanion) Give() ([]*os.File, error) { return nil, nil }
func (w watchedCompanion) Stop() error               { return nil }

// A companion that was started without the lock, while another call-out stops the driver, would
// stay.
func TestACompanionIsStartedUnderTheLock(t *testing.T) {
	name, err := flex.ParseName("example.com/companion-test")
	if err != nil {
		t.Fatal(err)
	}
	locked, unlocked := 0, 0
	n := Driver{Program: "companion-test", Version: "2", Companion: func(n Node) Companion {
		return watchedCompanion{n, &locked, &unlocked}
	}}.NodeFor(name, Settings{})
	n.RunDir = t.TempDir()
	if err := os.Mkdir(n.Volumes().Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	// Somebody has the lock of the process that serves, and does not answer.
	daemon, err := n.pair().OpenLock()
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	if err := unix.FcntlFlock(daemon.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // at first, and after the upgrade has failed
		if _, err := n.Upgrade(); err == nil {
			t.Error("upgrade succeeds")
		}
	}
	if locked == 0 || unlocked > 0 {
		t.Errorf("the companion was started %d times under the lock, and %d times without it", locked, unlocked)
	}
}
