package main_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Hardened nodes mount /proc so that a user does not see the processes of others
// (hidepid=, man 5 proc). The daemon is such a user.
func TestThreadsAreKnownWhereProcHidesThem(t *testing.T) {
	d := install(t)
	dir := t.TempDir()
	// A /proc of its own: to mount the node's anew would change it for everybody.
	script := `mount -t proc -o hidepid=2 none /proc && "$1" mount "$2" "$3" && read end; exec "$1" stop --force`
	node := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", d.path, dir, goodOptions)
	stdin, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	defer node.Wait()
	defer stdin.Close()
	answer := make([]byte, 1000)
	if n, err := stdout.Read(answer); err != nil || string(answer[:n]) != "{\"status\":\"Success\"}\n" {
		t.Fatalf("mount: %q, %v", answer[:max(n, 0)], err)
	}
	go io.Copy(io.Discard, stdout)

	path := filepath.Join(fmt.Sprintf("/proc/%d/root", node.Process.Pid), dir, "pod")
	if got := read(t, path); got != fmt.Sprintln(os.Getpid()) {
		t.Errorf("some thread reads %q, want %d", got, os.Getpid())
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: so it is not the leader that reads
		if unix.Gettid() == unix.Getpid() {
			result <- errors.New("this is the first thread")
			return
		}
		data, err := os.ReadFile(path)
		if err == nil && string(data) != fmt.Sprintln(os.Getpid()) {
			err = fmt.Errorf("it reads %q, want %d", data, os.Getpid())
		}
		result <- err
	}()
	switch err := <-result; {
	case kernelBefore(t, 6, 13):
		if !errors.Is(err, unix.ESRCH) {
			t.Errorf("a thread: %v, want ESRCH: this kernel tells nobody but /proc", err)
		}
	case err != nil:
		t.Errorf("a thread: %v", err)
	}
}
