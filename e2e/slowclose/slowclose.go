// Package slowclose has tests hang processes in execve(2), where the kernel holds a lock of theirs.
//
// execve(2) closes the files that are marked for it, and close(2) of a FUSE file waits for the
// answer to FLUSH, unkillably. Meanwhile the process is neither the old program nor the new one,
// and it holds its exec_update_lock. Whoever asks the kernel about it and needs that lock hangs as
// well: kcmp(2), and since Linux 6.18 most of /proc/PID.
//
// The test process must not have the file open itself. What it starts would hang where it closes
// it, and the test with it: until execve(2), no goroutine is stopped for the garbage collector
// (syscall.forkExec), and soon none runs. So a child opens it: the test binary, whose TestMain
// calls [Intercept]. What the test process does read while it starts others is a file of [Text].
package slowclose

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Verb is the first argument of a test binary that is to be a child of [File.Execute].
const Verb = "slowclose"

// Main is the life of the child: it opens a file, and executes a program that does not get it. The
// arguments are those after the verb: the file's path, the program's, and the program's arguments,
// with its name.
func Main(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("%s FILE PROGRAM NAME...: %q is too little", Verb, args)
	}
	if _, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open", Path: args[0], Err: err}
	}
	return os.NewSyscallError("execve "+args[1], unix.Exec(args[1], args[2:], nil))
}

// Intercept returns, unless this process is a child of [File.Execute].
func Intercept() {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		fmt.Fprintln(os.Stderr, Main(os.Args[2:]))
		os.Exit(1)
	}
}

// hang is how long is waited for what takes milliseconds.
const hang = time.Minute

// File is one whose first FLUSH waits until it is told to be answered.
type File struct {
	Path string // in Dir
	Dir  string // the mount point
	// Every FLUSH waits, and not only the first. It is set before anybody has the file.
	Every bool

	waits  chan struct{} // closed when FLUSH has come
	answer chan struct{} // closed when it is to be answered
	came   atomic.Bool   // the first one has
	told   sync.Once
}

// Mount mounts a file system that has the file, until the test ends. Then it is aborted, if need
// be, so that nobody hangs any longer. What waits for processes that hang in it must be cleaned up
// after that, or call Answer before.
func Mount(t testing.TB) *File {
	t.Helper()
	dir := t.TempDir()
	f := &File{Path: filepath.Join(dir, "file"), Dir: dir, waits: make(chan struct{}), answer: make(chan struct{})}
	root := &gofs.Inode{}
	server, err := gofs.Mount(dir, root, &gofs.Options{
		MountOptions: fuse.MountOptions{Name: "slowclose", FsName: "slowclose", DirectMountStrict: true, AllowOther: true},
		OnAdd: func(ctx context.Context) {
			root.AddChild("file", root.NewPersistentInode(ctx, &node{file: f}, gofs.StableAttr{}), false)
		},
	})
	if err != nil {
		t.Fatalf("mount on %s: %v", dir, err)
	}
	t.Cleanup(func() {
		f.Answer()
		// With force, the connection is aborted, whoever still uses it.
		_ = unix.Unmount(dir, unix.MNT_FORCE)
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		server.Wait()
	})
	return f
}

// Answer has the FLUSH answered, whether it has come or not.
func (f *File) Answer() { f.told.Do(func() { close(f.answer) }) }

// Waits returns when the FLUSH has come and is not answered.
func (f *File) Waits(t testing.TB) {
	t.Helper()
	select {
	case <-f.waits:
	case <-time.After(hang):
		t.Fatalf("nobody closes %s", f.Path)
	}
}

// Execute starts a child of the test that hangs while it executes a program, and returns when it
// does. The arguments are the program's, with its name. The caller waits for its end, after Answer.
func (f *File) Execute(t testing.TB, program string, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{Verb, f.Path, program}, argv...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Waits(t)
	return cmd
}

// node is the file, as the kernel asks for it.
type node struct {
	gofs.Inode
	file *File
}

func (n *node) Open(context.Context, uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (n *node) Flush(context.Context, gofs.FileHandle) syscall.Errno {
	first := n.file.came.CompareAndSwap(false, true)
	if first {
		close(n.file.waits)
	}
	if first || n.file.Every {
		<-n.file.answer
	}
	return 0
}

// Text is a file that close(2) asks nobody about, so that a process that the test starts while the
// file is open waits for no server.
func Text(content string) gofs.InodeEmbedder {
	return &text{gofs.MemRegularFile{Data: []byte(content), Attr: fuse.Attr{Mode: 0o444}}}
}

type text struct{ gofs.MemRegularFile }

func (*text) Open(context.Context, uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH, 0
}
