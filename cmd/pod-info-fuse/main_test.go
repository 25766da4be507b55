package main_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// binary is the driver under test, built from this tree with version 1.2.3;
// newer is the same with version 1.2.4, and attacker one whose daemon attacks.
var binary, newer, attacker string

// TestMain runs each test on a node of its own, several at the same time: most of them wait.
func TestMain(m *testing.M) {
	if root := os.Getenv(forgerVariable); root != "" {
		forgerMain(root)
	}
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests mount: run them as root")
		os.Exit(1)
	}
	switch dir := os.Getenv(buildsVariable); {
	case flagValue("list") != "":
		os.Exit(m.Run())
	case dir == "":
		os.Exit(eachOnANode())
	default:
		binary, newer, attacker = filepath.Join(dir, "binary"), filepath.Join(dir, "newer"), filepath.Join(dir, "attacker")
		os.Exit(onANode(m))
	}
}

const (
	// buildsVariable names the directory of the builds to a process that is on a node of its
	// own, and vendorVariable what the vendors of its drivers begin with.
	buildsVariable, vendorVariable = "POD_INFO_FUSE_TEST_BUILDS", "POD_INFO_FUSE_TEST_VENDOR"
	// perCPU is how many tests run at the same time, for each CPU.
	perCPU = 4
)

// testVendor begins the vendor of every driver that this test installs.
var testVendor = os.Getenv(vendorVariable)

func flagValue(name string) string { return flag.Lookup("test." + name).Value.String() }

// eachOnANode builds the driver, and executes this binary again for each test that was asked
// for.
func eachOnANode() (status int) {
	fail := func(what string, err error, output []byte) int {
		fmt.Printf("%s: %v\n%s", what, err, output)
		return 1
	}
	dir, err := os.MkdirTemp("", "pod-info-fuse-test-")
	if err != nil {
		return fail("make a directory for builds", err, nil)
	}
	defer os.RemoveAll(dir)
	for name, build := range map[string][2]string{"binary": {"1.2.3", ""}, "newer": {"1.2.4", ""}, "attacker": {"1.2.5", "attack"}} {
		if output, err := buildCommand(filepath.Join(dir, name), build[0], build[1]).CombinedOutput(); err != nil {
			return fail("build the driver", err, output)
		}
	}
	// What follows a slash is about subtests.
	pattern, subtests, _ := strings.Cut(flagValue("run"), "/")
	if pattern == "" {
		pattern = "."
	}
	list, err := exec.Command("/proc/self/exe", "-test.list", pattern).CombinedOutput()
	if err != nil {
		return fail("list the tests", err, list)
	}
	names := make(chan string)
	var all sync.WaitGroup
	var printing sync.Mutex // of status, too
	number := 0
	for range perCPU * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for name := range names {
				printing.Lock()
				number++
				vendor := fmt.Sprintf("test-%d-%d-", os.Getpid(), number)
				printing.Unlock()
				output, err := nodeCommand(dir, vendor, "^"+name+"$/"+subtests).CombinedOutput()
				printing.Lock()
				if err != nil {
					status = 1
				}
				if err != nil || testing.Verbose() {
					fmt.Print(strings.TrimSuffix(strings.TrimSuffix(string(output), "PASS\n"), "\x16"))
				}
				printing.Unlock()
			}
		})
	}
	for _, name := range strings.Fields(string(list)) {
		names <- name
	}
	close(names)
	all.Wait()
	return status
}

// nodeCommand executes this binary again in namespaces of its own, where it is as on a node
// whatever the machine: the first process shares its mounts, which root may ask of it; the
// cgroup that it begins in is the root; and nothing that it starts outlives it.
func nodeCommand(builds, vendor, run string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err) // there is /proc
	}
	// A shell is the first process, because it reaps those whose parents have ended.
	args := append([]string{"--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--mount-proc",
		"sh", "-c", `"$@"; exit $?`, "sh", self}, os.Args[1:]...)
	command := exec.Command("unshare", append(args, "-test.run", run, "-test.parallel", "100", "-test.testlogfile=")...)
	command.Env = append(os.Environ(), buildsVariable+"="+builds, vendorVariable+"="+vendor)
	return command
}

// onANode runs the test, which must leave nothing over.
func onANode(m *testing.M) int {
	status := m.Run()
	if left := leftovers(); left != "" {
		fmt.Printf("the test left over:\n%s", left)
		return 1
	}
	return status
}

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
