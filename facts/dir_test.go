package facts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	end := time.Now().Add(time.Second)
	go func() {
		var err error
		for number := 2; err == nil && time.Now().Before(end); number++ {
			err = configMap(dir, number)
		}
		ended <- err
	}()
	for time.Now().Before(end) {
		if _, _, err := (Dir{Path: dir}).Read("zone"); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestADirectoryOfTooManyEntriesIsNotListed(t *testing.T) {
	dir := t.TempDir()
	for i := range MaxEntries + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if all, _, err := (Dir{Path: dir}).Scan(); err == nil || !strings.Contains(err.Error(), "more than 2000 entries") {
		t.Errorf("%d facts, %v", len(all), err)
	}
	if err := os.Remove(filepath.Join(dir, "0")); err != nil {
		t.Fatal(err)
	}
	if all, left, err := (Dir{Path: dir}).Scan(); err != nil || len(all) != MaxEntries || len(left) != 0 {
		t.Errorf("%d facts, %v, %v", len(all), left, err)
	}
}
