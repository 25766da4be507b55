package pair

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
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

// holder starts a process that has the active lock of a place.
func holder(t *testing.T) (Place, *exec.Cmd) {
	t.Helper()
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
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = holder.Wait() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "<nil>\n" {
		t.Fatalf("the process that is to have the lock says %q, %v", line, err)
	}
	return at, holder
}

// Another process may have got the PID of one that ended: what was read may be of that.
func TestAProcessThatEndsWhileItIsInspectedIsNotKnown(t *testing.T) {
	for name, end := range map[string]func(*exec.Cmd) error{
		"reaped": func(c *exec.Cmd) error { _ = c.Process.Kill(); _ = c.Wait(); return nil },
		"a zombie": func(c *exec.Cmd) error {
			_ = c.Process.Kill()
			return unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		},
	} {
		at, holder := holder(t)
		if err := at.Inspect(holder.Process.Pid, func() error { return nil }); err != nil {
			t.Errorf("%s: while it lives: %v", name, err)
		}
		err := at.Inspect(holder.Process.Pid, func() error { return end(holder) })
		if err == nil || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("%s: when it ended: %v", name, err)
		}
		if err := at.Inspect(holder.Process.Pid, func() error { return nil }); err == nil {
			t.Errorf("%s: known after its end", name)
		}
		if err := at.Inspect(os.Getpid(), func() error { return nil }); err == nil {
			t.Error("a process without a lock is known")
		}
	}
}

// What a lock names, or a cgroup has, may be anybody's process.
func TestRootKillsTheDaemonsUserOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	at := Place{User: confine.User{UID: 4200000003, GID: 4200000003}}
	for user, killed := range map[uint32]bool{at.User.UID: true, 0: false, 65534: false} {
		t.Run(strconv.Itoa(int(user)), func(t *testing.T) {
			sleeps := exec.Command("/bin/sleep", "1000")
			sleeps.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
			if err := sleeps.Start(); err != nil {
				t.Fatal(err)
			}
			if err := at.Kill(sleeps.Process.Pid, func() bool { return true }); err != nil {
				t.Error(err)
			}
			if err := sleeps.Process.Signal(unix.SIGTERM); err != nil { // where it lives
				t.Error(err)
			}
			_ = sleeps.Wait()
			if got := sleeps.ProcessState.Sys().(syscall.WaitStatus).Signal() == unix.SIGKILL; got != killed {
				t.Errorf("a process of user %d was killed: %v", user, got)
			}
		})
	}
}
