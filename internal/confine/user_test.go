package confine_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
)

const sends = "SENDS_AS_USER"

var user = confine.DefaultUser("pod-info-fuse")

// Two programs have nothing of each other's, and an upgrade keeps the user.
func TestAProgramHasAUserOfItsOwn(t *testing.T) {
	if want := (confine.User{UID: 4200000001, GID: 4200000001}); user != want {
		t.Errorf("%+v, want %+v", user, want)
	}
	programs := map[uint32]string{}
	for _, program := range []string{"pod-info-fuse", "clock", "clocks", "a", "b", "pod-info"} {
		u := confine.DefaultUser(program)
		if programs[u.UID] != "" || u.UID != u.GID || u.UID%2 != 1 || u.UID < 4200000001 || u.UID > 1<<32-3 {
			t.Errorf("%s is %+v, and %q is the same", program, u, programs[u.UID])
		}
		programs[u.UID] = program
	}
}

// TestMain is what the test binary does as a root process that sends signals: it has sent
// one, and is about to send another.
func TestMain(m *testing.M) {
	if os.Getenv(sends) == "" {
		os.Exit(m.Run())
	}
	go fmt.Println(user.Signal(func() error { return nil }), user.Signal(func() error {
		fmt.Println("ready")
		select {}
	}))
	select {}
}

func start(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func TestTheDaemonsUserCannotSignalRootWhichSignalsIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	root := exec.Command("/proc/self/exe")
	root.Env = append(os.Environ(), sends+"=1")
	output, err := root.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, root)
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", root.Process.Pid))
	for _, path := range threads {
		kill := exec.Command("/bin/sh", "-c", "kill -0 "+filepath.Base(path))
		kill.SysProcAttr = &syscall.SysProcAttr{Credential: user.Credential()}
		if kill.Run() == nil {
			t.Errorf("user %d can signal %s of the root process %d", user.UID, path, root.Process.Pid)
		}
	}
	if len(threads) < 2 {
		t.Errorf("threads: %v", threads)
	}
}

func TestRootReachesTheDaemonsUserOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, test := range []struct {
		user uint32
		want error
	}{
		{user.UID, nil},
		{0, unix.EPERM},
		{65534, unix.EPERM},
	} {
		t.Run(strconv.Itoa(int(test.user)), func(t *testing.T) {
			cmd := exec.Command("/bin/sleep", "60")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: test.user, Gid: test.user}}
			start(t, cmd)
			if err := user.Signal(func() error { return unix.Kill(cmd.Process.Pid, 0) }); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
}
