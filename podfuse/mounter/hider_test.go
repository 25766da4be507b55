package mounter

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/proc"
)

// A pod can have processes that nobody can be told of, and that do not look as if they executed
// something: each costs who asks a second. The orders of another pod are carried out as if there
// were none.
func TestWhoHidesInAnotherPod(t *testing.T) {
	dir := t.TempDir()
	never := make(chan struct{})
	root := &gofs.Inode{}
	server, err := gofs.Mount(dir, root, &gofs.Options{
		MountOptions: fuse.MountOptions{Name: "nowrite", FsName: "nowrite", DirectMountStrict: true, AllowOther: true},
		OnAdd: func(ctx context.Context) {
			for i := range 3 * hiders {
				root.AddChild(strconv.Itoa(i), root.NewPersistentInode(ctx, &noWrite{end: never}, gofs.StableAttr{}), false)
			}
		},
	})
	must(t, err)
	abort := func() { _ = unix.Unmount(dir, unix.MNT_FORCE) }
	t.Cleanup(func() {
		close(never)
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		server.Wait()
	})
	w := newWorld(t)
	const otherUID = "99999999-2222-3333-4444-555555555555"
	otherData, otherServer := w.mount("data", otherUID)
	c := w.container(containerOptions{})
	other := w.container(containerOptions{Client: otherData.ID(), Server: otherServer.ID(), Slow: dir})
	one := c.serve(launchOptions{Text: "one", Mountpoint: "/m"})
	if problem := w.attach(one, c.pid); problem != "" {
		t.Fatal(problem)
	}
	defer abort() // or no container ends
	for i := range 3 * hiders {
		cmd := other.exec(0, "hider", "/slow/"+strconv.Itoa(i))
		must(t, cmd.Start())
		go func() { _ = cmd.Wait() }()
	}
	eventually(t, "some hide", func() bool {
		text, err := os.ReadFile(other.group)
		must(t, err)
		var hide atomic.Int32
		var asked sync.WaitGroup
		for _, number := range strings.Fields(string(text)) {
			asked.Go(func() {
				pid, _ := strconv.Atoi(number)
				if _, err := proc.Link(pid, "ns/mnt"); errors.Is(err, proc.ErrHangs) {
					hide.Add(1)
				}
			})
		}
		asked.Wait()
		return hide.Load() >= hiders
	})
	watch := stopwatch.Start()
	if problem := w.attach(one, 0); problem != "" { // wherever it is to be
		t.Error(problem)
	}
	if took, late := watch.Stop(); took > hiders*proc.AskTime/2 {
		t.Errorf("it took %v, and the machine stood still for %v", took, late)
	}
}

// hiders are enough. Of three times as many, some do not get to execve(2): they need memory before.
const hiders = 4

// hiderMain has a child that hangs in execve(2) before the kernel gives it another memory
// (fs/exec.c, exec_mmap): the child has its exec_update_lock and waits for the lock of the memory
// that it shares with this process. That one has it for as long as a page of a file, which it
// replaces, is not written back (fs/fuse/file.c, fuse_vma_close).
func hiderMain(args []string) error {
	debug.SetGCPercent(-1)
	start := func(program string) error {
		_, err := os.StartProcess(program, []string{program, "sleeper"}, &os.ProcAttr{})
		return err
	}
	_ = start("/nothing") // what it needs is in memory then
	fd, err := unix.Open(args[0], unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Mlockall(unix.MCL_CURRENT); err != nil {
		return err
	}
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	page[0] = 1
	go func() {
		time.Sleep(100 * time.Millisecond)
		_, _, _ = unix.Syscall6(unix.SYS_MMAP, uintptr(unsafe.Pointer(&page[0])), uintptr(len(page)), unix.PROT_READ,
			unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	}()
	time.Sleep(time.Second / 2)
	return start("/test")
}

// noWrite is a file of which no page can be written back.
type noWrite struct {
	gofs.Inode
	end <-chan struct{}
}

func (*noWrite) Open(context.Context, uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (*noWrite) Getattr(_ context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o666, 1<<16
	return 0
}

func (*noWrite) Read(_ context.Context, _ gofs.FileHandle, into []byte, _ int64) (fuse.ReadResult, syscall.Errno) {
	clear(into)
	return fuse.ReadResultData(into), 0
}

func (n *noWrite) Write(context.Context, gofs.FileHandle, []byte, int64) (uint32, syscall.Errno) {
	<-n.end
	return 0, syscall.EIO
}
