package mount

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenLocalGoesWhereAPathLeads(t *testing.T) {
	top := t.TempDir()
	memory := tmpfs(t, "local")
	kernels := filepath.Join(top, "kernels")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(top, "a/b"), 0o755),
		os.Mkdir(filepath.Join(memory, "inner"), 0o755),
		os.Mkdir(kernels, 0o755),
		unix.Mount("proc", kernels, "proc", 0, ""),
		os.WriteFile(filepath.Join(top, "file"), nil, 0o644),
		os.Symlink("a/b", filepath.Join(top, "relative")),
		os.Symlink(memory, filepath.Join(top, "to-memory")),
		os.Symlink("../..", filepath.Join(memory, "up")),
		os.Symlink("inner", filepath.Join(memory, "relative")),
		os.Symlink(kernels, filepath.Join(memory, "to-kernels")),
		os.Symlink("loop", filepath.Join(top, "loop")),
		os.Symlink("loop", filepath.Join(memory, "loop")),
		os.Symlink("kernels/1", filepath.Join(top, "to-kernels")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	defer unix.Unmount(kernels, unix.MNT_DETACH)
	for path, want := range map[string]error{
		"/": nil, top: nil, top + "/a/b": nil, top + "/a/../a/./b/": nil, top + "/relative": nil,
		memory: nil, memory + "/": nil, memory + "/inner": nil, memory + "/relative": nil,
		top + "/nothing": fs.ErrNotExist, top + "/nothing/a": fs.ErrNotExist, memory + "/nothing": fs.ErrNotExist,
		top + "/file": unix.ENOTDIR, top + "/file/a": unix.ENOTDIR, top + "/loop": unix.ELOOP, memory + "/loop": unix.ELOOP,
		kernels: ErrNotLocal, kernels + "/1": ErrNotLocal, top + "/to-kernels": ErrNotLocal, memory + "/to-kernels": ErrNotLocal,
		// These are local. To know that of links, one would have to follow them step by step.
		top + "/to-memory": ErrNotLocal, top + "/to-memory/inner": ErrNotLocal, memory + "/up": ErrNotLocal,
	} {
		file, err := OpenLocal(path)
		if !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %v", path, err, want)
			continue
		} else if err != nil {
			continue
		}
		var got, want unix.Stat_t
		if err := errors.Join(unix.Fstat(int(file.Fd()), &got), unix.Stat(path, &want)); err != nil || got.Dev != want.Dev || got.Ino != want.Ino {
			t.Errorf("%s: it is another directory, %v", path, err)
		}
		file.Close()
	}
	if err := unix.Mkfifo(top+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		top + "/file": "", top + "/a": "", top + "/fifo": "is neither a regular file nor a directory", kernels + "/1/comm": ErrNotLocal.Error(),
	} {
		file, err := OpenLocalInput(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		file.Close()
	}
}
