package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LeftProcesses kills the processes that the node left behind, and tells which.
// Shims take a moment to end after their container has.
func (n *Node) LeftProcesses() error {
	left := func() error {
		var errs []error
		for _, pid := range n.Processes() {
			commandLine, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			errs = append(errs, fmt.Errorf("left process %d: %s", pid, bytes.ReplaceAll(commandLine, []byte{0}, []byte{' '})))
		}
		return errors.Join(errs...)
	}
	err := Eventually(time.Minute, left)
	if err == nil {
		return nil
	}
	for _, pid := range n.Processes() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return errors.Join(err, Eventually(time.Minute, left))
}

// Processes are the pids of all processes that come from this node: servers and
// shims have inherited StartProcess's environment variable, the driver's daemon
// may have dropped it but runs a file in the node's directory. What containers
// run is not among them; it ends with its shim.
func (n *Node) Processes() []int {
	var found []int
	for _, dir := range processDirs() {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		environment, _ := os.ReadFile(filepath.Join(dir, "environ"))
		executable, _ := os.Readlink(filepath.Join(dir, "exe"))
		if slices.Contains(strings.Split(string(environment), "\x00"), n.environment()) ||
			strings.HasPrefix(executable, n.Dir+"/") {
			found = append(found, pid)
		}
	}
	return found
}
