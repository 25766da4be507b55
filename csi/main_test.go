package csi_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// driver is the driver's binary, podFuse the other driver's, and plugin the plugin's, built from
// this tree. vendor is of the driver that a test installs.
var driver, podFuse, plugin, vendor string

// TestMain runs each test on a node of its own. Mounts are shared there: what is unmounted on the
// node goes in the containers that have it from there. /run is empty.
func TestMain(m *testing.M) {
	suite := testnode.Suite{
		Build:   build,
		Begin:   "mount --make-rshared / && mount -t tmpfs tmpfs /run &&",
		Raced:   true,
		Patient: []string{"TestAPluginEndsWhileARequestHangs", "TestAProbeWaitsForTheInstaller", "TestARefusedPluginIsOfferedAgain"},
	}
	dir := testnode.Builds
	driver, podFuse, plugin = filepath.Join(dir, "pod-info-fuse"), filepath.Join(dir, "pod-fuse"), filepath.Join(dir, "pod-info-fuse-csi")
	vendor = testnode.TestVendor + "example.com"
	suite.Main(m)
}

func build(dir string) error {
	for _, name := range []string{"pod-info-fuse", "pod-fuse", "pod-info-fuse-csi"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", "-s -w -X main.version=1.2.3",
			"-o", filepath.Join(dir, name), "../cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	return nil
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
