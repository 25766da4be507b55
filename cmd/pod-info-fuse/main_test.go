package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// binary is the driver under test, built from this tree with version 1.2.3;
// newer is the same with version 1.2.4, and attacker one whose daemon attacks.
var binary, newer, attacker string

func TestMain(m *testing.M) {
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests mount: run them as root")
		return 1
	}
	dir, err := os.MkdirTemp("", "pod-info-fuse-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "pod-info-fuse")
	newer, attacker = binary+"-newer", binary+"-attacker"
	for path, flags := range map[string][]string{
		binary:   {"-ldflags", "-X main.version=1.2.3"},
		newer:    {"-ldflags", "-X main.version=1.2.4"},
		attacker: {"-ldflags", "-X main.version=1.2.5", "-tags", "attack"},
	} {
		build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-o", path}, flags...)...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the driver: %v\n%s", err, output)
			return 1
		}
	}
	status := m.Run()
	if left := leftovers(); left != "" {
		fmt.Fprintf(os.Stderr, "the tests left over:\n%s", left)
		return 1
	}
	return status
}

// testVendor begins the vendor of every driver that these tests install.
var testVendor = fmt.Sprintf("test-%d-", os.Getpid())

// leftovers lists the mounts, processes and run directories of tests.
func leftovers() string {
	var list strings.Builder
	infos, err := mountinfo.GetMounts(func(info *mountinfo.Info) (skip, stop bool) {
		return info.FSType != "fuse.pod-info-fuse" || !strings.HasPrefix(info.Source, testVendor), false
	})
	if err != nil {
		fmt.Fprintln(&list, err)
	}
	for _, info := range infos {
		fmt.Fprintf(&list, "mount %s of %s\n", info.Mountpoint, info.Source)
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		if line, _ := os.ReadFile(path); strings.Contains(string(line), "~pod-info-fuse/pod-info-fuse\x00serve\x00--driver\x00"+testVendor) {
			fmt.Fprintf(&list, "process %s: %s\n", path, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	runDirs, _ := filepath.Glob("/run/pod-info-fuse/" + testVendor + "*")
	for _, path := range runDirs {
		fmt.Fprintf(&list, "run directory %s\n", path)
	}
	return list.String()
}
