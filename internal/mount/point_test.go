package mount

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// tmpfs mounts a tmpfs on a new directory until the test ends.
func tmpfs(t *testing.T, source string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "with space")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil {
		}
	})
	return dir
}

func TestAPointTellsWhatIsMountedOnIt(t *testing.T) {
	dir := tmpfs(t, "below")
	if err := unix.Mount("on-top", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, row := range [][2]string{{inner, ""}, {dir, "on-top"}} {
		path, want := row[0], row[1]
		point, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer point.Close()
		if mounted := point.Mounted(); mounted != (want != "") {
			t.Errorf("%s: mounted %v", path, mounted)
		}
		if want == "" {
			continue
		}
		if info, err := point.Info(); err != nil || info == nil || info.Source != want || info.FSType != "tmpfs" {
			t.Errorf("%s: %+v, %v; want %s", path, info, err, want)
		}
		if err := point.Detach(); err != nil {
			t.Error(err)
		}
		if info, err := point.Info(); err != nil || info != nil {
			t.Errorf("%s, detached: %+v, %v", path, info, err)
		}
	}
}

func TestOpenTakesDirectoriesOnly(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/file", nil, 0o600), os.Symlink(dir, dir+"/link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		dir + "/nothing": fs.ErrNotExist,
		dir + "/file":    unix.ENOTDIR,
		dir + "/file/x":  unix.ENOTDIR,
		dir + "/link":    ErrLink,
	} {
		point, err := Open(path)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			point.Close()
		}
	}
	point, err := Open(dir + "/link/.")
	if err != nil {
		t.Fatalf("a link in the middle: %v", err)
	}
	point.Close()
}

// The directory that was opened is the one that is mounted on, whatever takes
// its name meanwhile.
func TestBindGoesToTheDirectoryThatWasOpened(t *testing.T) {
	base := t.TempDir()
	if err := errors.Join(os.Mkdir(base+"/volume", 0o755), os.Mkdir(base+"/victim", 0o755)); err != nil {
		t.Fatal(err)
	}
	source, err := Open(tmpfs(t, "source"))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	point, err := Open(base + "/volume")
	if err != nil {
		t.Fatal(err)
	}
	defer point.Close()
	if err := errors.Join(os.Rename(base+"/volume", base+"/moved"), os.Symlink("victim", base+"/volume")); err != nil {
		t.Fatal(err)
	}
	if err := point.Bind(source); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(base+"/moved", unix.MNT_DETACH)
	for path, want := range map[string]bool{base + "/victim": false, base + "/moved": true} {
		at, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if mounted := at.Mounted(); mounted != want {
			t.Errorf("%s: mounted %v", path, mounted)
		}
		at.Close()
	}
}
