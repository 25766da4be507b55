package facts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// configMap makes a version of a directory as the kubelet does, and removes the one
// before.
func configMap(dir string, number int) error {
	name := fmt.Sprintf("..%d", number)
	return errors.Join(
		os.Mkdir(filepath.Join(dir, name), 0o755),
		os.WriteFile(filepath.Join(dir, name, "zone"), fmt.Append(nil, number), 0o644),
		os.Symlink(name, filepath.Join(dir, "..data_tmp")),
		os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
		os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", number-1))),
	)
}

func TestAFactOfAConfigMapIsAlwaysThere(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(configMap(dir, 1), os.Symlink("..data/zone", filepath.Join(dir, "zone"))); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	end := time.Now().Add(300 * time.Millisecond)
	go func() {
		var err error
		for number := 2; err == nil && time.Now().Before(end); number++ {
			err = configMap(dir, number)
		}
		ended <- err
	}()
	facts := in(t, dir)
	for time.Now().Before(end) {
		if _, _, err := facts.Read("zone"); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func in(t *testing.T, dir string) Dir {
	t.Helper()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return Dir{File: file}
}

func TestADirectoryOfTooManyEntriesIsNotListed(t *testing.T) {
	dir := t.TempDir()
	for i := range MaxEntries + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	facts := in(t, dir)
	if all, _, err := facts.Scan(); err == nil || !strings.Contains(err.Error(), "more than 2000 entries") {
		t.Errorf("%d facts, %v", len(all), err)
	}
	if err := os.Remove(filepath.Join(dir, "0")); err != nil {
		t.Fatal(err)
	}
	if all, left, err := facts.Scan(); err != nil || len(all) != MaxEntries || len(left) != 0 {
		t.Errorf("%d facts, %v, %v", len(all), left, err)
	}
}

// A file server that holds a lease on a fact must not have its reader wait.
func TestAFactUnderALeaseIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"rack", "zone"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("r12"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.OpenFile(filepath.Join(dir, "rack"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	facts := in(t, dir)
	began := time.Now()
	if _, _, err := facts.Read("rack"); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("read: %v", err)
	}
	if all, left, err := facts.Scan(); err != nil || len(all) != 2 || len(left) != 0 {
		t.Errorf("scan: %v, %v, %v", all, left, err)
	}
	// A lease is broken after 45 seconds (man 5 proc_sys_fs).
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, content, err := facts.Read("rack"); err != nil || string(content) != "r12" {
		t.Errorf("after the lease: %q, %v", content, err)
	}
}

// A file that another one replaces while it is read is whole all the same. On a busy machine, a
// reader would otherwise meet one replacement after the other.
func TestToBeReplacedIsNotToBeWrittenTo(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("other"), 0o644), os.Rename(path+".new", path))
		},
		"removed": os.Remove,
		"written": func(path string) error { return os.WriteFile(path, []byte("other"), 0o644) },
		"touched": func(path string) error { return os.Chmod(path, 0o600) },
	} {
		path := filepath.Join(t.TempDir(), "zone")
		if err := os.WriteFile(path, []byte("first"), 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		before, statErr := file.Stat()
		err = errors.Join(statErr, change(path))
		after, statErr := file.Stat()
		if err = errors.Join(err, statErr); err != nil {
			t.Fatal(err)
		}
		if want := what == "written" || what == "touched"; written(before, after) != want {
			t.Errorf("%s: taken for written to: %v", what, !want)
		}
	}
}
