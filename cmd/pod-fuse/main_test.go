package main_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"

	"example.com/pod-info-fuse/e2e/attack"
	"example.com/pod-info-fuse/e2e/builds"
	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/e2e/vandal"
)

// binary is the driver under test, with version 1.2.3, newer the same with version 1.2.4, and
// attacker one whose pair attacks.
var binary, newer, attacker string

const (
	// buildsVariable names the directory of the builds to the process that is on the test's node.
	buildsVariable = "POD_FUSE_TEST_BUILDS"
	// programVariable has this binary be a FUSE program; see serve.
	programVariable = "POD_FUSE_TEST_PROGRAM"
	// leakVariable has this binary be a process that hands descriptors on, or one that gets them;
	// see leak_test.go.
	leakVariable = "POD_FUSE_TEST_LEAK"
	// attackLog is where the attacker says what it could do.
	attackLog = "/run/attack.log"
)

// TestMain runs the tests on a node of their own: with a PID, a mount and a cgroup namespace, which
// end with all that is in them.
func TestMain(m *testing.M) {
	if text := os.Getenv(programVariable); text != "" && os.Getenv(leakVariable) == "" {
		fail("serve", serve(text, os.Args[1]))
		return
	}
	if victim := os.Getenv(vandalVariable); victim != "" {
		vandal.Run("/mnt/server", victim)
		return
	}
	if role := os.Getenv(leakVariable); role != "" {
		fail(role, leaks[role]())
		return
	}
	flag.Parse()
	if os.Geteuid() != 0 {
		fail("run", errors.New("these tests mount: run them as root"))
	}
	if dir := os.Getenv(buildsVariable); dir != "" {
		binary, newer, attacker = filepath.Join(dir, "pod-fuse"), filepath.Join(dir, "newer"), filepath.Join(dir, "attacker")
		os.Exit(m.Run())
	}
	os.Exit(onANode())
}

func fail(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func onANode() (status int) {
	dir, err := os.MkdirTemp("", "pod-fuse-test-")
	fail("make a directory", err)
	defer os.RemoveAll(dir)
	fail("make it everybody's", os.Chmod(dir, 0o755))
	for name, of := range map[string][2]string{"pod-fuse": {"1.2.3", ""}, "newer": {"1.2.4", ""}, "attacker": {attack.Orders, "attack"}} {
		flags := "-s -w -X main.version=" + of[0]
		if of[1] != "" {
			flags += " -X example.com/pod-info-fuse/internal/calllog.usual=" + attackLog
		}
		if err := builds.Build(filepath.Join(dir, name), ".", flags, of[1]); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	// A shell is the first process, because it reaps those whose parents have ended.
	args := []string{"--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--mount-proc",
		"sh", "-c", `mount -t tmpfs -o mode=755 run /run && "$@"; exit $?`, "sh", os.Args[0]}
	args = append(args, "-test.parallel=6") // most tests wait
	test := exec.Command("unshare", append(args, os.Args[1:]...)...)
	test.Env = append(os.Environ(), buildsVariable+"="+dir)
	test.Stdin, test.Stdout, test.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := test.Run(); err != nil {
		return 1
	}
	return 0
}

// serve is a FUSE program, which serves a file with a text.
func serve(text, mountpoint string) error {
	root := &fs.Inode{}
	add := func(ctx context.Context) {
		file := root.NewPersistentInode(ctx, slowclose.Text(text), fs.StableAttr{})
		root.AddChild("text", file, false)
	}
	server, err := fs.Mount(mountpoint, root, &fs.Options{OnAdd: add})
	if err == nil {
		server.Wait()
	}
	return err
}
