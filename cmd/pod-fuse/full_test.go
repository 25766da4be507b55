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

// On a node that has run well, what fills up later keeps new volumes away, and nothing else:
// neither those that are mounted, for which the kubelet may ask again, nor their programs.
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
