package fs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/internal/testnode"
)

// Hardened nodes mount /proc so that a user does not see the processes of others
// (hidepid=, man 5 proc). The daemon is such a user.
func TestThreadsAreKnownWhereProcHidesThem(t *testing.T) {
	d := testnode.Install(t)
	dir := t.TempDir()
	// A /proc of its own: to mount the node's anew would change it for everybody.
	script := `mount -t proc -o hidepid=2 none /proc && mount --bind /proc/$$ /proc/1 && echo ready && "$1" mount "$2" "$3" && read end; exec "$1" stop --force`
	node := testnode.Started(t, exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", d.Path, dir, testnode.GoodOptions))
	if answer := node.Line(); answer != `{"status":"Success"}` {
		t.Fatalf("mount: %q", answer)
	}

	path := filepath.Join(fmt.Sprintf("/proc/%d/root", node.PID), dir, "pod")
	if got := testnode.Read(t, path); got != fmt.Sprintln(os.Getpid()) {
		t.Errorf("some thread reads %q, want %d", got, os.Getpid())
	}
	var data []byte
	err := proc.OnThread(func() (err error) { data, err = os.ReadFile(path); return err }) // which is not the leader
	if err == nil && string(data) != fmt.Sprintln(os.Getpid()) {
		err = fmt.Errorf("it reads %q, want %d", data, os.Getpid())
	}
	switch {
	case testnode.KernelBefore(t, 6, 13):
		if !errors.Is(err, unix.ESRCH) {
			t.Errorf("a thread: %v, want ESRCH: this kernel tells nobody but /proc", err)
		}
	case err != nil:
		t.Errorf("a thread: %v", err)
	}
}
