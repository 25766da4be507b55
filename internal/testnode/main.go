// Package testnode is the harness of tests that run a driver on a node: each of them as on a
// machine of its own, several at the same time. A package of such tests has
//
//	func TestMain(m *testing.M) { testnode.Main(m) }
//
// and a test begins with [Install], or with [Place] where the installer installs. Tests of other
// programs have a [Suite].
package testnode

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/slowclose"
)

// Binary is the driver under test, built from this tree with version 1.2.3. Newer is the
// same with version 1.2.4.
var Binary, Newer string

// Builds is the directory of what was built.
var Builds = os.Getenv(buildsVariable)

// Main runs a package's tests of the driver, and exits. patient are the names of tests that wait
// for seconds and take little of a CPU meanwhile: they run beside all others.
func Main(m *testing.M, patient ...string) { Suite{Build: buildDriver, Patient: patient}.Main(m) }

// Suite is how a package's tests are run. A test fails on what it leaves over itself, and does not
// see what other tests do. Where something is fuzzed or measured, all tests run on one node, and
// [Require] skips those of the driver.
type Suite struct {
	Build   func(dir string) error // builds what is tested
	Begin   string                 // what a shell does first on each node, ending in &&
	Patient []string               // see [Main]
	// Raced tests are of code in their own process. Others are skipped with the race detector,
	// which sees nothing of a driver that is built without it.
	Raced bool
}

// Main runs each test on a node of its own, several at the same time, and exits.
func (s Suite) Main(m *testing.M) {
	slowclose.Intercept()
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests mount: run them as root")
		os.Exit(1)
	}
	switch dir := os.Getenv(buildsVariable); {
	case flagValue("list") != "", dir == noBuilds:
		os.Exit(m.Run())
	case dir != "":
		Binary, Newer = filepath.Join(dir, "binary"), filepath.Join(dir, "newer")
		os.Exit(onANode(m))
	case flagValue("fuzz") != "", flagValue("bench") != "", raceDetector() && !s.Raced:
		os.Exit(s.allOnOneNode())
	default:
		os.Exit(s.eachOnANode())
	}
}

const (
	// buildsVariable names the directory of the builds to a process that is on a node of its
	// own, and vendorVariable what the vendors of its drivers begin with.
	// On a node for all tests, noBuilds stands for that directory.
	buildsVariable, vendorVariable, noBuilds = "POD_INFO_FUSE_TEST_BUILDS", "POD_INFO_FUSE_TEST_VENDOR", "none"
	// perCPU is how many tests run at the same time, for each CPU, and patientPerCPU how many of
	// those that wait run beside them.
	perCPU, patientPerCPU = 2, 8
)

// TestVendor begins the vendor of every driver that this test installs.
var TestVendor = os.Getenv(vendorVariable)

func flagValue(name string) string { return flag.Lookup("test." + name).Value.String() }

// Require skips a test that needs the driver where it was not built. [Place] and [Build] call it.
func Require(t *testing.T) {
	t.Helper()
	if Binary == "" {
		t.Skip("the driver was not built")
	}
}

// allOnOneNode executes this binary again, once.
func (s Suite) allOnOneNode() (status int) {
	command := s.nodeCommand(noBuilds, "none", flagValue("run"))
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return 1
	}
	return 0
}

// raceDetector tells whether this test was built with it.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// buildDriver builds [Binary] and [Newer].
func buildDriver(dir string) error {
	for name, version := range map[string]string{"binary": "1.2.3", "newer": "1.2.4"} {
		if err := build(filepath.Join(dir, name), version, ""); err != nil {
			return err
		}
	}
	return nil
}

// eachOnANode builds what is tested, and executes this binary again for each test that was asked
// for.
func (s Suite) eachOnANode() (status int) {
	fail := func(what string, err error, output []byte) int {
		fmt.Printf("%s: %v\n%s", what, err, output)
		return 1
	}
	dir, err := os.MkdirTemp("", "pod-info-fuse-test-")
	if err != nil {
		return fail("make a directory for builds", err, nil)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o711), s.Build(dir)); err != nil {
		return fail("build what is tested", err, nil)
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
	tests := strings.Fields(string(list))
	if stale := without(s.Patient, tests); pattern == "." && len(stale) > 0 {
		return fail("find the tests that wait", fmt.Errorf("there is no %q", stale), nil)
	}
	var printing sync.Mutex // of status, too
	run := func(number int, name string) {
		// Nobody else on this machine has the directory's name.
		vendor := fmt.Sprintf("%s-%d-", strings.TrimPrefix(filepath.Base(dir), "pod-info-fuse-"), number)
		output, err := s.nodeCommand(dir, vendor, "^"+name+"$/"+subtests).CombinedOutput()
		left := removeCgroups(vendor)
		printing.Lock()
		defer printing.Unlock()
		if err != nil || left != nil {
			status = 1
		}
		if err != nil || testing.Verbose() {
			fmt.Print(strings.TrimSuffix(strings.TrimSuffix(string(output), "PASS\n"), "\x16"))
		}
		if left != nil {
			fmt.Printf("%s left over: %v\n", name, left)
		}
	}
	var all sync.WaitGroup
	start := func(workers int, isPatient bool) {
		numbers := make(chan int)
		for range workers * runtime.GOMAXPROCS(0) {
			all.Go(func() {
				for number := range numbers {
					run(number, tests[number])
				}
			})
		}
		all.Go(func() {
			defer close(numbers)
			for number, name := range tests {
				if slices.Contains(s.Patient, name) == isPatient {
					numbers <- number
				}
			}
		})
	}
	start(perCPU, false)
	start(patientPerCPU, true)
	all.Wait()
	return status
}

// without are the names that are not among others.
func without(names, others []string) (rest []string) {
	for _, name := range names {
		if !slices.Contains(others, name) {
			rest = append(rest, name)
		}
	}
	return rest
}

// removeCgroups removes the cgroups that have a vendor in their names, with those below. A
// daemon that was killed with its node leaves them, and so does one whose end took the kernel
// too long for stop. It is an error if somebody is in them.
func removeCgroups(vendor string) (failed error) {
	var dirs []string
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		tops, _ := filepath.Glob(filepath.Join(hierarchy, "*"+vendor+"*"))
		for _, top := range tops {
			_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
		}
	}
	for _, dir := range slices.Backward(dirs) { // the innermost first
		err := unix.Rmdir(dir)
		for deadline := time.Now().Add(Forever); err == unix.EBUSY && time.Now().Before(deadline); err = unix.Rmdir(dir) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil && err != unix.ENOENT { // some hierarchies have two names
			failed = errors.Join(failed, fmt.Errorf("remove cgroup %s: %w", dir, err))
		}
	}
	return failed
}

// nodeCommand executes this binary again in namespaces of its own, where it is as on a node
// whatever the machine: the first process shares its mounts, which root may ask of it; the
// cgroup that it begins in is the root; and nothing that it starts outlives it.
func (s Suite) nodeCommand(builds, vendor, run string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err) // there is /proc
	}
	// A shell is the first process, because it reaps those whose parents have ended.
	args := append([]string{"--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--mount-proc",
		"sh", "-c", s.Begin + ` "$@"; exit $?`, "sh", self}, os.Args[1:]...)
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
		return !strings.HasPrefix(info.Source, TestVendor), false
	})
	if err != nil {
		fmt.Fprintln(&list, err)
	}
	for _, info := range infos {
		fmt.Fprintf(&list, "mount %s of %s\n", info.Mountpoint, info.Source)
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		if line, _ := os.ReadFile(path); strings.Contains(string(line), "\x00serve\x00--driver\x00"+TestVendor) {
			fmt.Fprintf(&list, "process %s: %s\n", path, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	runDirs, _ := filepath.Glob("/run/pod*/" + TestVendor + "*")
	for _, path := range runDirs {
		fmt.Fprintf(&list, "run directory %s\n", path)
	}
	return list.String()
}
