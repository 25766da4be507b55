package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/clitest"
	"example.com/pod-info-fuse/survive/volume"
)

const podUID = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"

// options are what a kubelet passes for a volume of a pod, with some of its author's.
func options(uid string, own ...string) string {
	all := map[string]string{"kubernetes.io/pod.uid": uid, "kubernetes.io/pod.name": "web-0", "kubernetes.io/pod.namespace": "shop",
		"kubernetes.io/serviceAccount.name": "default", "kubernetes.io/pvOrVolumeName": "data", "kubernetes.io/readwrite": "rw", "kubernetes.io/fsType": ""}
	for ; len(own) > 0; own = own[2:] {
		all[own[0]] = own[1]
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// node is one on which the driver is installed, under a name of its own.
type node struct {
	t       *testing.T
	path    string // of the driver
	name    string // vendor/driver
	runDir  string
	kubelet string // its directory
	csi     bool   // its volumes come by that door
}

var nodes atomic.Int64

// newNode installs the driver. When the test ends, it stops it, and checks that nothing is left.
func newNode(t *testing.T) node {
	t.Helper()
	// Nobody else on this machine has the name of the builds' directory.
	vendor := fmt.Sprintf("test%s-%d", strings.TrimPrefix(filepath.Base(filepath.Dir(binary)), "pod-fuse-test-"), nodes.Add(1))
	n := node{t: t, name: vendor + "/pod-fuse", runDir: "/run/pod-fuse/" + vendor + "~pod-fuse", kubelet: t.TempDir()}
	n.path = filepath.Join(t.TempDir(), vendor+"~pod-fuse", "pod-fuse")
	must(t, os.Mkdir(filepath.Dir(n.path), 0o755))
	must(t, os.Link(binary, n.path))
	t.Cleanup(func() {
		if output, err := n.command("stop", "--force").CombinedOutput(); err != nil {
			t.Errorf("stop --force: %v: %s", err, output)
		}
		n.isGone()
	})
	return n
}

// isGone checks that nothing of the driver is on the node.
func (n node) isGone() {
	n.t.Helper()
	if _, err := os.Stat(n.runDir); !os.IsNotExist(err) {
		names, _ := filepath.Glob(n.runDir + "/*")
		n.t.Errorf("the run directory is there: %v, %q", err, names)
	}
	if left := n.mounts(); len(left) > 0 {
		n.t.Errorf("mounts are left: %q", left)
	}
	if left := n.processes(); len(left) > 0 {
		n.t.Errorf("processes are left: %q", left)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		if left, _ := filepath.Glob(pattern + "pod-fuse-" + strings.ReplaceAll(n.name, "/", "~") + "~*"); len(left) > 0 {
			n.t.Errorf("cgroups are left: %q", left)
		}
	}
}

// mounts lists what is mounted of the driver, and for the kubelet.
func (n node) mounts() (left []string) {
	for line := range strings.Lines(read(n.t, "/proc/self/mountinfo")) {
		if strings.Contains(line, n.runDir) || strings.Contains(line, n.kubelet) {
			left = append(left, line)
		}
	}
	return left
}

// processes lists those of the driver.
func (n node) processes() (left []string) {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		text, _ := os.ReadFile(path)
		line := strings.ReplaceAll(string(text), "\x00", " ")
		if strings.Contains(line, " mounter") && strings.Contains(line, n.runDir) || strings.Contains(line, "serve --driver "+n.name) {
			left = append(left, path+": "+line)
		}
	}
	return left
}

// volume makes the directory of a pod's volume, as the kubelet does.
func (n node) volume(uid, name string) string {
	n.t.Helper()
	dir := filepath.Join(n.kubelet, "pods", uid, "volumes", strings.ReplaceAll(n.name, "/", "~"), name)
	if n.csi {
		dir = filepath.Join(n.kubelet, "pods", uid, "volumes", volume.CSIPlugin, name, "mount")
	}
	must(n.t, os.MkdirAll(dir, 0o750))
	return dir
}

// pod mounts a client volume and its server volume.
func (n node) pod() (client, server string) {
	n.t.Helper()
	client, server = n.volume(podUID, "data"), n.volume(podUID, "data-server")
	n.must("mount", client, options(podUID))
	n.must("mount", server, options(podUID, "serves", "data"))
	return client, server
}

func (n node) command(args ...string) *exec.Cmd {
	command := exec.Command(n.path, append(args, n.flag(args)...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
	return command
}

func (n node) flag(args []string) []string {
	switch args[0] {
	case "init", "mount", "unmount":
		return nil
	}
	return []string{"--driver", n.name}
}

// answer is what a call-out prints.
type answer struct{ Status, Message string }

// call executes a call-out as the kubelet does.
func (n node) call(args ...string) (a answer) {
	n.t.Helper()
	command := n.command(args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil || stderr.Len() > 0 || strings.Count(stdout.String(), "\n") != 1 {
		n.t.Errorf("%q: %v, stdout %q, stderr %q", args, err, stdout.String(), stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), &a); err != nil {
		n.t.Errorf("%q: %v: %q", args, err, stdout.String())
	}
	return a
}

func (n node) must(args ...string) {
	n.t.Helper()
	if a := n.call(args...); a.Status != "Success" {
		n.t.Fatalf("%q: %+v", args, a)
	}
}

// status is what status -o json prints, as a script sees it.
type status struct {
	Mount   struct{ State string }
	Daemon  struct{ Active, Standby *struct{ PID int } }
	Volumes []struct{ ID, Dir, PodUID, State string }
	Mounter struct {
		Version, Error string
		PID, Spare     int
	}
	Programs []struct {
		ID, Name, Pod, State, Problem string
		PID, Restarts, Waiting        int
		Since                         time.Time
	}
}

func (n node) status() (s status) {
	n.t.Helper()
	output, err := n.command("status", "-o", "json").Output()
	if err == nil {
		err = json.Unmarshal(output, &s)
	}
	if err != nil {
		n.t.Fatalf("status: %v: %s", err, output)
	}
	return s
}

// containerScript makes a mount and a PID namespace a container, which has volumes on /mnt/data and
// /mnt/server, and nothing of any driver's or kubelet's directories. It is as containerd 2.2 and
// runc 1.3 make one for a pod that asks for nothing: mounts are rw, without the flags that they
// had, and root has the default capabilities.
const containerScript = `mount -t tmpfs mnt /mnt && mkdir /mnt/data /mnt/server && mount --rbind "$1" /mnt/data && mount --rbind "$2" /mnt/server &&
mount -o remount,bind,rw,suid,dev,exec /mnt/data && mount -o remount,bind,rw,suid,dev,exec /mnt/server &&
umount -l $(awk '$5 ~ "/pods/.*/volumes/" { print $5 }' /proc/self/mountinfo) /run 2>/dev/null; shift 2 &&
exec setpriv --bounding-set=-all,` + defaultCapabilities + ` "$@"`

// defaultCapabilities are those of containerd and CRI-O together.
const defaultCapabilities = "+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write"

// inContainer starts a program in a container of the pod. It ends with the test.
func (n node) inContainer(client, server string, args ...string) *exec.Cmd {
	n.t.Helper()
	command := exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", containerScript, "sh", client, server}, args...)...)
	command.Env = append(os.Environ(), programVariable+"=hello")
	return command
}

// serves starts the program in a container, by the launcher. end ends it.
func (n node) serves(client, server string, flags ...string) (end func()) {
	n.t.Helper()
	args := append([]string{"/mnt/server/pod-fuse", "run"}, flags...)
	command := n.inContainer(client, server, append(args, "--", self(n.t), "{}")...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	must(n.t, command.Start())
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = command.Process.Kill()
			_ = command.Wait()
			if n.t.Failed() {
				n.t.Logf("the program's container: %s", output.String())
			}
		}
	}
	n.t.Cleanup(end)
	return end
}

// reads returns what a container reads of what the program serves, or why not.
func (n node) reads(client, server string) string {
	n.t.Helper()
	command := n.inContainer(client, server, "timeout", "60", "cat", "/mnt/data/text")
	output, err := command.CombinedOutput()
	if err != nil {
		return err.Error() + ": " + string(output)
	}
	return string(output)
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	must(t, err)
	return path
}

// kills kills a process, which status has named.
func (n node) kills(pid int) {
	n.t.Helper()
	if pid == 0 {
		n.t.Fatal("status does not name the process")
	}
	must(n.t, unix.Kill(pid, unix.SIGKILL))
}

// killAll kills processes at once, and returns when they have ended: stopped, none notices that
// another one dies.
func (n node) killAll(pids ...int) {
	n.t.Helper()
	stop(n.t, pids...)
	for _, pid := range pids {
		must(n.t, unix.Kill(pid, unix.SIGKILL))
	}
	become(n.t, "Z", pids)
}

// stop stops processes. A signal takes effect later than kill(2) returns: until each thread has
// stopped, they may do something.
func stop(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		must(t, unix.Kill(pid, unix.SIGSTOP))
	}
	become(t, "T", pids)
}

// become waits until all threads of processes that are there have a state.
func become(t *testing.T, state string, pids []int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the state of %v is %s", pids, state), func() bool {
		for _, pid := range pids {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
			must(t, err)
			for _, path := range threads {
				if stat, err := os.ReadFile(path); err == nil && !strings.Contains(string(stat), ") "+state+" ") {
					return false
				}
			}
		}
		return true
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	within(t, 3*time.Minute, what, condition)
}

// within waits for a condition. It is asked for a third of the time at most: it may execute the
// driver, and other tests need the processors.
func within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	pause := time.Millisecond
	for deadline := time.Now().Add(limit); ; pause = min(2*pause, 20*time.Millisecond) {
		asked := time.Now()
		if condition() {
			return
		} else if asked.After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(max(pause, 2*time.Since(asked)))
	}
}

// exitStatus is that of a command.
func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func TestEachCommandHasHelp(t *testing.T) { clitest.Help(t, binary) }
