package csi_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// driver is the driver's binary, podFuse the other driver's, and plugin the plugin's, built from
// this tree. vendor is of the driver that tests install: nobody else on this machine has it.
var driver, podFuse, plugin, vendor string

// buildsVariable names the directory of the builds to the process that is on a node of its own.
const buildsVariable = "POD_INFO_FUSE_CSI_TEST_BUILDS"

// TestMain runs the tests on a node of its own: the first process shares its namespaces, /run is
// empty, and nothing outlives it.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests mount: run them as root")
		os.Exit(1)
	}
	dir := os.Getenv(buildsVariable)
	if dir == "" {
		os.Exit(onANode())
	}
	driver, podFuse, plugin = filepath.Join(dir, "pod-info-fuse"), filepath.Join(dir, "pod-fuse"), filepath.Join(dir, "pod-info-fuse-csi")
	vendor = filepath.Base(dir) + ".example.com"
	status := m.Run()
	if left := leftovers(); left != "" {
		fmt.Printf("left over:\n%s", left)
		status = 1
	}
	os.Exit(status)
}

// onANode builds the programs, and executes this binary again.
func onANode() int {
	fail := func(what string, err error, output []byte) int {
		fmt.Printf("%s: %v\n%s", what, err, output)
		return 1
	}
	dir, err := os.MkdirTemp("", "csi-test-")
	if err != nil {
		return fail("make a directory for builds", err, nil)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return fail("let the daemon's user execute", err, nil)
	}
	for _, name := range []string{"pod-info-fuse", "pod-fuse", "pod-info-fuse-csi"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", "-s -w -X main.version=1.2.3",
			"-o", filepath.Join(dir, name), "../cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return fail("build "+name, err, output)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fail("find this binary", err, nil)
	}
	// A shell is the first process, because it reaps those whose parents have ended. Mounts are
	// shared, as on a node: what is unmounted there goes in the containers that have it from there.
	args := append([]string{"--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--mount-proc",
		"sh", "-c", `mount --make-rshared / && mount -t tmpfs tmpfs /run && "$@"; exit $?`, "sh", self}, os.Args[1:]...)
	again := exec.Command("unshare", args...)
	again.Env = append(os.Environ(), buildsVariable+"="+dir)
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	if err := again.Run(); err != nil {
		return 1
	}
	return 0
}

// leftovers lists what tests have left on the node.
func leftovers() string {
	var list strings.Builder
	for _, line := range mounts() {
		fmt.Fprintf(&list, "mount %s\n", line)
	}
	for _, pattern := range []string{"/run/pod-info-fuse", "/run/pod-fuse", "/sys/fs/cgroup/*" + vendor + "*", "/sys/fs/cgroup/*/*" + vendor + "*"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			fmt.Fprintln(&list, path)
		}
	}
	return list.String()
}

// mounts are the lines of mountinfo that are of the tests' file systems.
func mounts() (lines []string) {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, " fuse.pod-info-fuse "+vendor+"/") || strings.Contains(line, " fuse.pod-fuse "+vendor+"/") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
