package metrics

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWithoutAFileNothingIsRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callouts")
	Record(path, "mount", "Success", time.Second)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file: %v", err)
	}
	if c, err := ReadCalls(path); !errors.Is(err, fs.ErrNotExist) || c != (Calls{}) {
		t.Errorf("%+v, %v", c, err)
	}
	if err := os.Symlink(newCalls(t), path); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCalls(path); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v", err)
	}
}

// Another version may count other things.
func TestAFileOfAnotherVersion(t *testing.T) {
	for _, size := range []int{1, callsSize - 1, callsSize + 8, 1 << 20} {
		path := filepath.Join(t.TempDir(), "callouts")
		theirs := make([]byte, size)
		for i := range theirs {
			theirs[i] = 7
		}
		if err := os.WriteFile(path, theirs, 0o600); err != nil {
			t.Fatal(err)
		}
		Record(path, "mount", "Success", time.Second)
		if c, err := ReadCalls(path); !errors.Is(err, unix.EINVAL) || c != (Calls{}) {
			t.Errorf("%d bytes: %+v, %v", size, c, err)
		}
		if now, err := os.ReadFile(path); string(now) != string(theirs) {
			t.Errorf("%d bytes: changed, %v", size, err)
		}
		// A process of theirs may be adding to it.
		old, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		if err := CreateCalls(path); err != nil {
			t.Fatal(err)
		}
		if c, err := ReadCalls(path); err != nil || c != (Calls{}) {
			t.Errorf("%d bytes, made anew: %+v, %v", size, c, err)
		}
		if info, err := old.Stat(); err != nil || info.Size() != int64(size) {
			t.Errorf("%d bytes became %d, %v", size, info.Size(), err)
		}
	}
}
