//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// hostName is not the node's name in the cluster: the driver has to tell the host's.
const hostName = "host-1"

// runInit is the machine's first process: it sets the machine up, starts the
// tests, and buries processes whose parents have died.
func runInit() int {
	if err := setUp(); err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: setting the machine up: %v\n", err)
		return 1
	}
	os.Setenv(stage, "tests")
	tests, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: starting the tests: %v\n", err)
		return 1
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			fmt.Fprintf(os.Stderr, "FAIL: waiting for the tests: %v\n", err)
			return 1
		case pid == tests.Pid && status.Exited():
			return status.ExitStatus()
		case pid == tests.Pid:
			fmt.Fprintf(os.Stderr, "FAIL: the tests died of %v\n", status.Signal())
			return 1
		}
	}
}

func setUp() error {
	if err := unix.Sethostname([]byte(hostName)); err != nil {
		return fmt.Errorf("set the host's name: %w", err)
	}
	if err := enterRoot(os.Getenv(root)); err != nil {
		return err
	}
	if err := keepSysctls(); err != nil {
		return err
	}
	return setUpNetwork()
}
