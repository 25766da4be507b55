package main_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// On a node that has run well, what fills up later keeps new volumes away, and nothing else: neither those that are
// mounted, for which the kubelet may ask again, nor their programs.
func TestARunDirectoryThatFillsUp(t *testing.T) {
	for name, fill := range map[string]func(*testing.T, string){"space": fillSpace, "inodes": fillInodes} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			parent := filepath.Dir(n.runDir)
			must(t, os.MkdirAll(parent, 0o755))
			must(t, unix.Mount("full", parent, "tmpfs", 0, "mode=755,size=400k,nr_inodes=300"))
			client, server := n.pod()
			n.serves(client, server, "--restart")
			if got := n.reads(client, server); got != "hello" {
				t.Fatalf("it reads %q", got)
			}
			fill(t, parent)

			const otherPod = "99999999-9999-4999-8999-999999999999"
			other := n.volume(otherPod, "data-server")
			if a := n.call("mount", other, options(otherPod, "serves", "data")); a.Status != "Failure" || !strings.Contains(a.Message, "no space left on device") {
				t.Errorf("another pod's: %+v", a)
			}
			if n.isMounted(other) != 0 {
				t.Error("another pod's is mounted")
			}
			n.must("unmount", other)
			n.must("mount", client, options(podUID))
			n.must("mount", server, options(podUID, "serves", "data"))
			var program int
			eventually(t, "status names the program", func() bool {
				programs := n.status().Programs
				if len(programs) == 1 {
					program = programs[0].PID
				}
				return program != 0
			})
			n.kills(program)
			if got := n.reads(client, server); got != "hello" {
				t.Errorf("after the program died, it reads %q", got)
			}
			n.must("unmount", client)
			n.must("unmount", server)
			if output, err := n.command("stop").CombinedOutput(); err != nil {
				t.Errorf("stop: %v: %s", err, output)
			}
			n.isGone()
			must(t, unix.Unmount(parent, 0))
		})
	}
}

// Each version that a pod was mounted with keeps its launcher, for as long as the pod lives. Where there is no space for
// one more, new volumes get the launcher that is there.
func TestNoSpaceForANewLauncher(t *testing.T) {
	n := newNode(t)
	n.pod()
	servers := filepath.Join(n.runDir, "servers")
	must(t, os.WriteFile(filepath.Join(servers, "binary-version"), []byte("1.0.0"), 0o644))
	for _, left := range []string{".new-binary", ".new-binary-1234567"} { // of call-outs that were killed, of this version and 0.1.0
		must(t, os.WriteFile(filepath.Join(servers, left), nil, 0o755))
	}
	fillSpace(t, servers)

	const otherPod = "99999999-9999-4999-8999-999999999999"
	client, server := n.volume(otherPod, "data"), n.volume(otherPod, "data-server")
	n.must("mount", client, options(otherPod))
	n.must("mount", server, options(otherPod, "serves", "data"))
	there, err := os.Stat(filepath.Join(servers, "binary"))
	must(t, err)
	if got, err := os.Stat(filepath.Join(server, "pod-fuse")); err != nil || !os.SameFile(there, got) {
		t.Errorf("the volume has another launcher, %v", err)
	}
	n.serves(client, server)
	if got := n.reads(client, server); got != "hello" {
		t.Errorf("it reads %q", got)
	}
	if left, _ := filepath.Glob(servers + "/.new-*"); len(left) > 0 {
		t.Errorf("copies are left: %q", left)
	}
}

func fillSpace(t *testing.T, dir string) {
	file, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

func fillInodes(t *testing.T, dir string) {
	for i := 0; ; i++ {
		switch err := unix.Mkfifo(filepath.Join(dir, fmt.Sprintf("filler-%d", i)), 0o600); {
		case err == unix.ENOSPC:
			return
		case err != nil:
			t.Fatal(err)
		}
	}
}
