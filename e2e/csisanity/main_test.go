package csisanity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// onNodeVariable tells a process that it is on a node of its own, and a number that nobody else
// on this machine has.
const onNodeVariable = "POD_INFO_FUSE_CSI_SANITY"

// vendor is of the driver that is installed.
var vendor string

// TestMain runs the suite on a node of its own, in which /run is empty, and fails on what is left.
func TestMain(m *testing.M) {
	if os.Getenv(onNodeVariable) == "" {
		os.Exit(onANode())
	}
	vendor = "sanity-" + os.Getenv(onNodeVariable) + ".example.com"
	status := m.Run()
	if left := leftovers(); left != "" {
		fmt.Printf("left over:\n%s", left)
		status = 1
	}
	os.Exit(status)
}

func onANode() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	// A shell is the first process, because it reaps those whose parents have ended.
	again := exec.Command("unshare", append([]string{"--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--mount-proc",
		"sh", "-c", `mount -t tmpfs tmpfs /run && "$@"; exit $?`, "sh", self}, os.Args[1:]...)...)
	again.Env = append(os.Environ(), fmt.Sprintf("%s=%d", onNodeVariable, os.Getpid()))
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	if err := again.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// leftovers lists what is left on the node.
func leftovers() string {
	var list strings.Builder
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, " fuse.pod-info-fuse "+vendor+"/") {
			list.WriteString("mount " + line)
		}
	}
	for _, pattern := range []string{"/run/pod-info-fuse", "/sys/fs/cgroup/*/*" + vendor + "*", "/sys/fs/cgroup/*" + vendor + "*"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			fmt.Fprintln(&list, path)
		}
	}
	return list.String()
}
