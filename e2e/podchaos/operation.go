package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// These make system calls directly: package os hides EINTR, and repeats the call.

// operatePaths is what a thread does that operates on paths: each of its turns is one of all,
// chosen at random.
func (l *load) operatePaths(number int) func(*thread) {
	all := []func(*thread, root){(*thread).stat, (*thread).read, (*thread).list, (*thread).access, (*thread).statfs, (*thread).nothing}
	if l.links {
		all = append(all, (*thread).readlink)
	}
	if l.writes {
		all = append(all, (*thread).change)
	}
	return func(t *thread) { all[t.random.IntN(len(all))](t, l.roots[t.random.IntN(len(l.roots))]) }
}

// file is one of the files below a root: its path, and its name in the tree.
func (t *thread) file(r root) (path, name string) {
	switch {
	case r.prefix != "":
		name = filepath.Join(r.prefix, "inner", "file")
		return filepath.Join(r.path, "inner", "file"), name
	case t.random.IntN(3) == 0:
		name = innerName(t.random.IntN(treeDirs))
	default:
		name = fileName(t.random.IntN(treeFiles))
	}
	return filepath.Join(r.path, name), name
}

func (t *thread) stat(r root) {
	path, name := t.file(r)
	_ = t.operate("stat", path, func(path string) error {
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil {
			return err
		}
		if want := len(content(name)); stat.Size != int64(want) {
			return fmt.Errorf("it has %d bytes, want %d", stat.Size, want)
		}
		return nil
	})
}

// pulse is an operation that no cache of the kernel answers, and every program within a millisecond
// or two, a thousand times a second, or twice as often as the others where those pause: it tells
// when a program has answered again. To look for what is not there would tell how long that takes
// in the program's source beside the other threads: of s3fs, 26 to 63 ms. A program that has come
// back looks the file up first.
const pulse = "pulse"

func (t *thread) pulse() {
	began := now()
	t.statfsOf(pulse, filepath.Join(t.roots[0].path, fileName(0)))
	t.beat.Store(now() - began)
	time.Sleep(max(time.Millisecond, t.pause/2))
}

// nothing looks for what is not there, by a name that nobody has asked for before: a stand-in has a
// directory by every name for those who are not to be held.
func (t *thread) nothing(r root) {
	_ = t.operate("stat nothing", filepath.Join(r.path, fmt.Sprintf("nothing-%d-%d", t.number, t.count.Load())), func(path string) error {
		var stat unix.Stat_t
		err := unix.Stat(path, &stat)
		if err == nil {
			return errors.New("it is there")
		} else if err == unix.ENOENT {
			return nil
		}
		return err
	})
}

func (t *thread) access(r root) {
	path, _ := t.file(r)
	_ = t.operate("access", path, func(path string) error { return unix.Access(path, unix.R_OK) })
}

func (t *thread) statfs(r root) { t.statfsOf("statfs", r.path) }

func (t *thread) statfsOf(name, path string) {
	_ = t.operate(name, path, func(path string) error {
		var stat unix.Statfs_t
		if err := unix.Statfs(path, &stat); err != nil {
			return err
		}
		if stat.Blocks == 0 && stat.Bsize == 4096 && stat.Namelen == 255 { // survive/volume, Root.StatFs
			return errors.New("a stand-in has answered")
		}
		return nil
	})
}

func (t *thread) readlink(r root) {
	if r.prefix != "" {
		return
	}
	i := t.random.IntN(treeFiles)
	_ = t.operate("readlink", filepath.Join(r.path, linkName(i)), func(path string) error {
		var buffer [64]byte
		n, err := unix.Readlink(path, buffer[:])
		if err == nil && string(buffer[:n]) != fileName(i) {
			err = fmt.Errorf("it is to %q", buffer[:n])
		}
		return err
	})
}

func (t *thread) openPath(path string, flags int) (fd int, err error) {
	err = t.operate("open", path, func(path string) (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		return err
	})
	return fd, err
}

// read opens, reads and closes a file. Once it is open, ESTALE may come of it.
func (t *thread) read(r root) {
	path, name := t.file(r)
	fd, err := t.openPath(path, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if t.random.IntN(2) == 0 {
		// Or it is read from the page cache only, and the program is never asked.
		_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
	}
	_ = t.operateOpen("read", path, func() error { return compareContent(fd, content(name)) })
}

// readTimed tells how long it takes to open, to read and to close a file of less than a page.
func (l *load) readTimed(t *thread) {
	name := smallFile()
	path := filepath.Join(l.roots[0].path, name)
	began := now()
	fd, err := t.openPath(path, 0)
	if err != nil {
		return
	}
	_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
	err = t.operateOpen("read", path, func() error { return compareContent(fd, content(name)) })
	_ = unix.Close(fd)
	if took := now() - began; err == nil {
		t.mu.Lock()
		t.took = append(t.took, time.Duration(took))
		t.mu.Unlock()
	}
}

func compareContent(fd int, want []byte) error {
	buffer := make([]byte, 128<<10)
	for at := 0; ; {
		n, err := unix.Pread(fd, buffer, int64(at))
		switch {
		case err != nil:
			return err
		case n == 0 && at == len(want):
			return nil
		case n == 0 || at+n > len(want) || !bytes.Equal(buffer[:n], want[at:at+n]):
			return fmt.Errorf("the content is wrong at %d", at)
		}
		at += n
	}
}

func (t *thread) list(r root) {
	want := treeNames(t.links)
	if r.prefix != "" {
		want = []string{"inner"}
	}
	fd, err := t.openPath(r.path, unix.O_DIRECTORY)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = t.operateOpen("getdents", r.path, func() error { return compareNames(fd, want) })
}

func compareNames(fd int, want []string) error {
	var names []string
	buffer := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(fd, buffer)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s is missing in %s", name, strings.Join(names, " "))
		}
	}
	return nil
}

// change makes a directory, renames it, and removes it. Its names are the thread's own: what is
// done already was done by a program that died before it could answer.
func (t *thread) change(r root) {
	if r.prefix != "" || r.path != t.roots[0].path {
		return // the others may be read-only
	}
	first := filepath.Join(r.path, scratch, fmt.Sprintf("%d-first", t.number))
	second := filepath.Join(r.path, scratch, fmt.Sprintf("%d-second", t.number))
	exists := func(path string) bool {
		var stat unix.Stat_t
		return unix.Lstat(path, &stat) == nil
	}
	err := t.operate("mkdir", first, func(path string) error {
		err := unix.Mkdir(path, 0o755)
		if err == unix.ESTALE {
			// Of all that walk a path, what makes a name does not walk it again when the look-up of
			// that name is stale (Linux 6.18, fs/namei.c: do_mkdirat, and filename_create in it; so
			// do mknod, symlink, link and bind). Nobody can know from a look-up that it is one.
			t.again("mkdir ESTALE")
			err = unix.Mkdir(path, 0o755)
		}
		if err == unix.EEXIST {
			t.again("mkdir EEXIST")
			return nil
		}
		return err
	})
	if err != nil { // there may be nothing to rename
		return
	}
	_ = t.operate("rename", first, func(path string) error {
		err := unix.Rename(path, second)
		if err == unix.EXDEV {
			// Its first path was walked before the program died, and leads to its mount, and the
			// second one to that of the next.
			t.again("rename EXDEV")
			err = unix.Rename(path, second)
		}
		if err == unix.ENOENT && exists(second) {
			t.again("rename ENOENT")
			return nil
		}
		return err
	})
	_ = t.operate("rmdir", second, func(path string) error {
		err := unix.Rmdir(path)
		if err == unix.ENOENT {
			t.again("rmdir ENOENT")
			return nil
		}
		return err
	})
}

// readOpenFile reads a file that stays open for a while.
func (l *load) readOpenFile(t *thread) {
	path, name := t.file(l.roots[0])
	fd, err := t.openPath(path, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for i := 0; i < 2000 && !l.ended.Load(); i++ {
		_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
		if t.operateOpen("read what is open", path, func() error { return compareContent(fd, content(name)) }) != nil {
			return
		}
		t.rest()
	}
}

// listOpenDirectory does the same with a directory.
func (l *load) listOpenDirectory(t *thread) {
	fd, err := t.openPath(l.roots[0].path, unix.O_DIRECTORY)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for i := 0; i < 2000 && !l.ended.Load(); i++ {
		failed := t.operateOpen("list what is open", l.roots[0].path, func() error {
			if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
				return err
			}
			return compareNames(fd, treeNames(l.links))
		})
		if failed != nil {
			return
		}
		t.rest()
	}
}
