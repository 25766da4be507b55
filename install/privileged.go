package install

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Any pod can have a process that calls itself kubelet, and an installer with hostPID
// sees it. It must neither say where drivers are, nor be taken for a process of the
// host, in whose mount namespace we execute something as root.

// privileged tells whether a process may do what a kubelet has to: mount. Only a
// privileged pod has that as well, and it has no need to lie to us.
func privileged(process string) bool {
	status, err := os.ReadFile(filepath.Join(process, "status"))
	if err != nil {
		return false
	}
	root, admin := false, false
	for line := range strings.Lines(string(status)) { // man 5 proc_pid_status
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Uid":
			root = strings.Join(strings.Fields(value), " ") == "0 0 0 0"
		case "CapEff":
			capabilities, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			admin = err == nil && capabilities&(1<<unix.CAP_SYS_ADMIN) != 0
		}
	}
	return root && admin
}

// inOurUserNamespace tells whether a process has its capabilities where we have ours:
// anybody has all of them in a user namespace of his own.
func inOurUserNamespace(process string) bool {
	ours, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return false
	}
	theirs, err := os.Readlink(filepath.Join(process, "ns/user"))
	return err == nil && ours == theirs
}
