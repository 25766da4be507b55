package pod_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary is executed again: in namespaces that take all mounts and processes away with
// them, to become a container there, and as a program in one.
const (
	binaryVariable    = "POD_FUSE_TEST_BINARY"    // of the built pod-fuse; set in the namespaces
	containerVariable = "POD_FUSE_TEST_CONTAINER" // a container, in JSON
)

// binary is pod-fuse, built from this tree with version 1.2.3.
var binary = os.Getenv(binaryVariable)

// self is a copy of the test binary that everybody may execute.
var self = binary + ".test"

func TestMain(m *testing.M) {
	if text := os.Getenv(containerVariable); text != "" {
		fail("enter the container", enter(text))
	}
	if len(os.Args) > 1 && programs[os.Args[1]] != nil {
		fail(os.Args[1], programs[os.Args[1]](os.Args[2:]))
		os.Exit(0)
	}
	flag.Parse()
	fuzzing := flag.Lookup("test.fuzz").Value.String() != "" || flag.Lookup("test.fuzzworker").Value.String() == "true"
	switch {
	case binary != "":
		fail("mount /proc", unix.Mount("proc", "/proc", "proc", 0, ""))
		os.Exit(m.Run())
	case fuzzing:
		os.Exit(m.Run())
	case os.Geteuid() != 0:
		fmt.Fprintln(os.Stderr, "these tests mount: run them as root")
		os.Exit(1)
	}
	os.Exit(inNamespaces())
}

// fail ends a process that is no test.
func fail(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(99)
	}
}

func inNamespaces() (status int) {
	dir, err := os.MkdirTemp("", "pod-fuse-test-")
	fail("make a directory", err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "pod-fuse")
	build := exec.Command("go", "build", "-ldflags", "-X main.version=1.2.3", "-o", path, "../../cmd/pod-fuse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Printf("build: %v\n%s", err, output)
		return 1
	}
	fail("chmod", os.Chmod(dir, 0o755))
	text, err := os.ReadFile("/proc/self/exe")
	fail("read this binary", err)
	fail("copy this binary", os.WriteFile(path+".test", text, 0o755))
	test := exec.Command(path+".test", append([]string{"-test.parallel=8"}, os.Args[1:]...)...) // those that wait
	test.Args[0] = os.Args[0]
	test.Env = append(os.Environ(), binaryVariable+"="+path)
	test.Stdin, test.Stdout, test.Stderr = os.Stdin, os.Stdout, os.Stderr
	test.SysProcAttr = &syscall.SysProcAttr{
		// Go makes all mounts of the new namespace private.
		Unshareflags: syscall.CLONE_NEWNS, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Pdeathsig: syscall.SIGKILL,
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	if err := test.Run(); err != nil {
		return max(test.ProcessState.ExitCode(), 1)
	}
	return 0
}

// container is what a runtime does for a container of an unprivileged pod, as far as it matters
// here: its mounts, its user, and the default capabilities.
type container struct {
	Binds map[string]string // what is bound, rw, by where
	UID   int
	Proc  bool     // it has a PID namespace
	Env   []string // added to ours
	Args  []string
}

// defaultCapabilities are those of containerd and CRI-O together, which root of a container has.
var defaultCapabilities = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD, unix.CAP_NET_RAW, unix.CAP_SETGID, unix.CAP_SETUID,
	unix.CAP_SETFCAP, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE,
}

// enter becomes the container's first process. It only returns with an error.
func enter(text string) error {
	var c container
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	// Nothing goes from it to the node. What the driver attaches comes in, which a real one
	// does by entering the namespace.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}
	for at, what := range c.Binds {
		if err := unix.Mount(what, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s on %s: %w", what, at, err)
		}
		// As runc 1.3 does where a pod does not ask for readOnly: the mount has no flag left.
		if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("remount %s: %w", at, err)
		}
	}
	if c.Proc {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return err
		}
	}
	runtime.LockOSThread() // which becomes the program
	for capability := range unix.CAP_LAST_CAP + 1 {
		if slices.Contains(defaultCapabilities, capability) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	for _, err := range []error{
		syscall.Setgroups(nil), syscall.Setresgid(c.UID, c.UID, c.UID), syscall.Setresuid(c.UID, c.UID, c.UID),
	} {
		if err != nil {
			return err
		}
	}
	if err := os.Unsetenv(containerVariable); err != nil {
		return err
	}
	path := c.Args[0]
	if filepath.Base(path) == path {
		var err error
		if path, err = exec.LookPath(path); err != nil {
			return err
		}
	}
	return unix.Exec(path, c.Args, os.Environ())
}
