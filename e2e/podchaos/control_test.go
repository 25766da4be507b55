package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "asks-itself" {
		fmt.Fprintln(os.Stderr, asksItself(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// asksItself mounts a file system, and waits for an answer of its own that it never gives. When it
// has read the question, it makes a file.
func asksItself(dir, asked string) error {
	root := &gofs.Inode{}
	server, err := gofs.Mount(dir, root, &gofs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}, OnAdd: func(ctx context.Context) {
		root.AddChild("never", root.NewPersistentInode(ctx, &never{asked: asked}, gofs.StableAttr{}), false)
	}})
	if err != nil {
		return err
	}
	go server.Wait()
	_, err = os.Stat(filepath.Join(dir, "never"))
	return err
}

type never struct {
	gofs.Inode
	asked string
}

func (n *never) Getattr(context.Context, gofs.FileHandle, *fuse.AttrOut) syscall.Errno {
	if err := os.WriteFile(n.asked, nil, 0o600); err != nil {
		return syscall.EIO
	}
	select {}
}

// The control goes on with a program that cannot end by itself, and so does the suite.
func TestTheControlEndsWhoWaitsForItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err := errors.Join(err, os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	asked := filepath.Join(t.TempDir(), "asked")
	looks := make(chan time.Time)
	root := &rootServer{line: []string{"/proc/self/exe", "asks-itself", dir, asked}, dir: dir, log: log, left: make(chan struct{})}
	root.wait = func() <-chan time.Time { return looks }
	go root.run()
	t.Cleanup(func() {
		go root.end()
		for {
			select {
			case looks <- time.Time{}:
			case <-root.left:
				return
			}
		}
	})
	for range 2 {
		if err := await(context.Background(), stepTimeout, func() error { return os.Remove(asked) }); err != nil {
			t.Fatal(err)
		}
		pids := root.pids()
		if len(pids) != 1 {
			t.Fatalf("processes %v", pids)
		}
		if err := unix.Kill(pids[0], unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		if !proc.IsEnding(pids[0]) {
			t.Fatal("it has ended by itself")
		}
		for range 2 {
			looks <- time.Time{}
		}
	}
}
