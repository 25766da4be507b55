package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "asks-itself" {
		fmt.Fprintln(os.Stderr, asksItself(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// asksItself mounts a file system, and waits for an answer of its own that it never gives.
func asksItself(dir string) error {
	root := &gofs.Inode{}
	server, err := gofs.Mount(dir, root, &gofs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}, OnAdd: func(ctx context.Context) {
		root.AddChild("never", root.NewPersistentInode(ctx, &never{}, gofs.StableAttr{}), false)
	}})
	if err != nil {
		return err
	}
	go server.Wait()
	_, err = os.Stat(filepath.Join(dir, "never"))
	return err
}

type never struct{ gofs.Inode }

func (*never) Getattr(context.Context, gofs.FileHandle, *fuse.AttrOut) syscall.Errno { select {} }

// The control goes on with a program that cannot end by itself, and so does the suite.
func TestTheControlEndsWhoWaitsForItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err := errors.Join(err, os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	root := &rootServer{line: []string{"/proc/self/exe", "asks-itself", dir}, dir: dir, log: log, left: make(chan struct{})}
	go root.run()
	t.Cleanup(root.end)
	var before []int
	for range 2 {
		err := await(context.Background(), grace, func() error {
			found := root.pids()
			if len(found) == 0 || slices.Equal(found, before) {
				return fmt.Errorf("processes %v, after %v", found, before)
			}
			if err := root.mounted(); err != nil {
				return err
			}
			return waitsInFUSE(found[0])
		})
		if err != nil {
			t.Fatal(err)
		}
		before = root.pids()
		if err := unix.Kill(before[0], unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(endTime / 4)
		if threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", before[0])); len(threads) == 0 {
			t.Error("it has ended by itself")
		}
	}
}

// waitsInFUSE returns nil for a process of which a thread waits for a FUSE answer.
func waitsInFUSE(pid int) error {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	for _, task := range tasks {
		if text, err := os.ReadFile(task); err == nil && string(text) == "request_wait_answer" {
			return nil
		}
	}
	return fmt.Errorf("no thread of process %d waits for an answer", pid)
}
