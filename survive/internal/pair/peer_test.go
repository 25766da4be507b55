package pair

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/confine"
)

// holdsLock names a file to a process of this program, which takes the active lock of it, and
// waits for the end of its standard input.
const holdsLock = "TEST_HOLDS_LOCK"

func init() {
	path := os.Getenv(holdsLock)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		lock := byteLock(unix.F_WRLCK, activeByte)
		err = unix.FcntlFlock(file.Fd(), unix.F_SETLK, &lock)
	}
	fmt.Println(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// Another process may have got the PID of one that ended: what was read may be of that.
func TestAProcessThatEndsWhileItIsInspectedIsNotKnown(t *testing.T) {
	at := Place{Lock: filepath.Join(t.TempDir(), "daemon.lock"), User: confine.User{UID: uint32(os.Geteuid())}}
	if err := os.WriteFile(at.Lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command("/proc/self/exe")
	holder.Env = append(os.Environ(), holdsLock+"="+at.Lock)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "<nil>\n" {
		t.Fatalf("the process that is to have the lock says %q, %v", line, err)
	}
	if err := at.Inspect(holder.Process.Pid, func() error { return nil }); err != nil {
		t.Errorf("while it lives: %v", err)
	}
	err = at.Inspect(holder.Process.Pid, func() error {
		_ = holder.Process.Kill()
		_ = holder.Wait()
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("when it ended: %v", err)
	}
	if err := at.Inspect(os.Getpid(), func() error { return nil }); err == nil {
		t.Error("a process without a lock is known")
	}
}
