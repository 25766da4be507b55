package csi_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/clitest"
)

// process is a plugin that runs as in a container: in namespaces of its own but for that of
// PIDs, and with nothing where the host has its driver.
type process struct {
	*exec.Cmd
	output *output
}

// output is what a process prints.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// inContainer is a command in a container of the node. more are flags of unshare(1).
func (w *world) inContainer(more []string, args ...string) *exec.Cmd {
	script := `mount -t tmpfs tmpfs "$0" && echo container > /proc/sys/kernel/hostname && exec "$@"`
	argv := append([]string{"--mount", "--propagation", "slave", "--uts", "--ipc", "--net", "--cgroup"}, more...)
	argv = append(argv, "sh", "-c", script, filepath.Join(w.kubelet, "exec"))
	command := exec.Command("unshare", append(argv, args...)...)
	command.Env = append(os.Environ(), "SECRET=hunter2")
	return command
}

// start starts a plugin in a container, and connects to it.
func (w *world) start(more ...string) *process {
	w.t.Helper()
	p := &process{output: &output{}}
	p.Cmd = w.inContainer(more, plugin, "serve", "--driver", w.plugin.Driver.String(), "--node-id", "node-1", "--endpoint", "unix://"+w.socket,
		"--registration-dir", w.registrationDir(), "--kubelet-dir", w.kubelet, "--binary", w.binary, "--attributes", strings.Join(w.plugin.Attributes, ","),
		"--policy-attribute", w.plugin.PolicyAttribute)
	p.Stdout, p.Stderr = p.output, p.output
	if err := p.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = p.end(syscall.SIGKILL)
		if w.t.Failed() {
			w.t.Logf("the plugin said: %s", p.output)
		}
	})
	registration := w.registration()
	before, _ := os.Lstat(registration)
	eventually(w.t, "the plugin serves", func() bool {
		now, err := os.Lstat(registration)
		if !strings.Contains(p.output.String(), " serves driver ") || err != nil || before != nil && now.ModTime().Equal(before.ModTime()) {
			return false
		}
		client, err := net.Dial("unix", registration) // it has its name before it is listened at
		if err == nil {
			client.Close()
		}
		return err == nil
	})
	w.connect()
	return p
}

// end sends a signal, and waits for the end.
func (p *process) end(signal syscall.Signal) error {
	if p.ProcessState != nil {
		return nil
	}
	if err := p.Process.Signal(signal); err != nil {
		return err
	}
	return p.Wait()
}

// probe executes the command, and returns its exit status and what it prints.
func (w *world) probe() (status int, output string) {
	w.t.Helper()
	command := exec.Command(plugin, "probe", "--endpoint", "unix://"+w.socket)
	text, err := command.CombinedOutput()
	if command.ProcessState == nil {
		w.t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(text)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(forever); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in %v: %s", forever, what)
		}
	}
}

func TestTheDaemonIsTheHostsAndNotTheContainers(t *testing.T) {
	w := place(t)
	w.start()
	if status, output := w.probe(); status != 0 || output != "" {
		t.Errorf("probe: %d, %q", status, output)
	}
	target := w.target(podUID, "info")
	w.mustPublish(target)
	w.reads(target)
	node, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(target, "pod.nodename")); err != nil || string(got) != node+"\n" {
		t.Errorf("pod.nodename is %q, %v, want the host's, %q", got, err, node)
	}
	for _, pid := range w.pair() {
		for _, kind := range []string{"mnt", "uts", "ipc", "net", "cgroup", "pid"} {
			ours, err := os.Readlink("/proc/self/ns/" + kind)
			theirs, theirErr := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
			if err != nil || theirErr != nil || ours != theirs {
				t.Errorf("process %d is in %s (%v), and the host in %s (%v)", pid, theirs, theirErr, ours, err)
			}
		}
		if executable, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || executable != w.binary {
			t.Errorf("process %d executes %s, %v, want %s", pid, executable, err, w.binary)
		}
		if environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || strings.Contains(string(environment), "hunter2") {
			t.Errorf("process %d has the environment %q, %v", pid, environment, err)
		}
	}
	w.mustUnpublish(target)
	w.isGone(target)
}

// This is what dummy-fuse-csi shows of other plugins: their restart severs every mount.
func TestNoReaderNoticesThatThePluginWasKilled(t *testing.T) {
	w := place(t)
	p := w.start()
	target := w.target(podUID, "info")
	w.mustPublish(target)
	file, err := os.Open(filepath.Join(target, "pod.nodename")) // each read asks the daemon
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before := mounts()
	for range 5 {
		if err := p.end(syscall.SIGKILL); err == nil {
			t.Fatal("it ended with success")
		}
		content := make([]byte, 100)
		if n, err := file.ReadAt(content, 0); n == 0 {
			t.Fatalf("read while there is no plugin: %v", err)
		}
		p = w.start() // in spite of the sockets that are there
		if n, err := file.ReadAt(content, 0); n == 0 {
			t.Fatalf("read: %v", err)
		}
		w.mustPublish(target)
	}
	if after := mounts(); strings.Join(before, "\n") != strings.Join(after, "\n") {
		t.Errorf("the mounts are\n%s\nand were\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	file.Close()
	w.mustUnpublish(target)
	w.isGone(target)
}

func TestSocketsEndWithThePlugin(t *testing.T) {
	w := place(t)
	p := w.start()
	sockets := []string{w.socket, w.registration()}
	for _, path := range sockets {
		if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v: %s", err, p.output)
	}
	for _, path := range sockets {
		if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 0 {
			t.Errorf("left in %s: %v, %v", filepath.Dir(path), names, err)
		}
	}
	if status, output := w.probe(); status != 1 || !strings.Contains(output, "csi.sock") {
		t.Errorf("probe: %d, %q", status, output)
	}
}

// A kubelet makes an event of each probe that fails. On a new node, the installer puts the driver
// into its place while the plugin beside it is probed for the first time.
func TestAProbeWaitsForTheInstaller(t *testing.T) {
	w := place(t)
	hidden := w.binary + ".later"
	if err := os.Rename(w.binary, hidden); err != nil {
		t.Fatal(err)
	}
	w.start()
	installed := make(chan error, 1)
	time.AfterFunc(500*time.Millisecond, func() { installed <- os.Rename(hidden, w.binary) })
	status, output := w.probe()
	if err := <-installed; err != nil || status != 0 {
		t.Errorf("%v; probe: %d, %q", err, status, output)
	}
}

// The pod has five seconds to end; what is asked here leaves room for a slow machine.
func TestAPluginEndsWhileARequestHangs(t *testing.T) {
	w := place(t)
	w.installs(fmt.Sprintf("[ $1 != mount ] || while [ -e %s ]; do sleep .01; done", w.binary))
	p := w.start()
	client, err := net.Dial("unix", w.registration()) // and does not let go
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	target := w.target(podUID, "info")
	published := make(chan error, 1)
	go func() { published <- w.publish(target) }()
	eventually(t, "mount is called", func() bool {
		called, _ := os.ReadFile(w.calls())
		return strings.Contains(string(called), "mount")
	})
	began := time.Now()
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v: %s", err, p.output)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := <-published; err == nil {
		t.Error("the volume is published")
	}
	for _, path := range []string{w.socket, w.registration()} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is there, or %v", path, err)
		}
	}
}

func TestAPluginThatCannotReachTheHostSaysSo(t *testing.T) {
	w := place(t)
	w.start("--pid", "--fork", "--kill-child", "--mount-proc") // no hostPID
	status, output := w.probe()
	if status != 1 || !strings.Contains(output, "is not installed on the host") || !strings.Contains(output, "hostPID: true") {
		t.Errorf("probe: %d, %q", status, output)
	}
	target := w.target(podUID, "info")
	err := w.publish(target)
	if err == nil || !strings.Contains(err.Error(), "FailedPrecondition") || !strings.Contains(err.Error(), "hostPID: true") {
		t.Errorf("publish: %v", err)
	}
	w.isGone(target)
}

func TestAPluginWithoutPrivilegesSaysSo(t *testing.T) {
	w := place(t)
	script := w.inContainer(nil, "setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--", plugin, "serve",
		"--driver", w.plugin.Driver.String(), "--node-id", "node-1", "--endpoint", "unix://"+w.socket,
		"--registration-dir", w.registrationDir(), "--kubelet-dir", w.kubelet, "--binary", w.binary)
	said := &output{}
	script.Stdout, script.Stderr = said, said
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = script.Process.Kill(); _ = script.Wait() })
	w.connect()
	status, output := w.probe()
	if status != 1 || !strings.Contains(output, "must be privileged") {
		t.Errorf("probe: %d, %q; it logs %s", status, output, said)
	}
}

func TestTheCommandLine(t *testing.T) {
	clitest.Help(t, plugin)
	for _, row := range []struct {
		args   []string
		status int
		output string
	}{
		{nil, 2, "\n  serve  "},
		{[]string{"--help"}, 0, "\n  serve  "},
		{[]string{"version"}, 0, "pod-info-fuse-csi 1.2.3\n"},
		{[]string{"dance"}, 2, `unknown command "dance"`},
		{[]string{"serve", "now"}, 2, `takes no argument "now"`},
		{[]string{"serve", "--colour"}, 2, "unknown flag: --colour"},
		{[]string{"serve", "--help"}, 0, "--registration-dir"},
		{[]string{"serve"}, 2, "NODE_NAME"},
		{[]string{"serve", "--node-id", "n", "--driver", "none"}, 1, `"none" is not of the form vendor/driver`},
		{[]string{"serve", "--node-id", "n", "--kubelet-dir", "kubelet"}, 1, "not an absolute path"},
		{[]string{"serve", "--node-id", "n", "--endpoint", "/dev/null"}, 1, "address already in use"},
		{[]string{"serve", "--node-id", "n", "--endpoint", "unix:///none/csi.sock"}, 1, "no such file or directory"},
		{[]string{"serve", "--node-id", "n", "--endpoint", "tcp://127.0.0.1:1"}, 2, "is not of the form unix:///PATH"},
		{[]string{"serve", "--node-id", "n", "--log-format", "xml"}, 2, `there are "text" and "json"`},
		{[]string{"probe", "--endpoint", "unix:///none/csi.sock"}, 1, "no such file or directory"},
	} {
		command := exec.Command(plugin, row.args...)
		command.Env = []string{}
		output, err := command.CombinedOutput()
		if command.ProcessState.ExitCode() != row.status || !strings.Contains(string(output), row.output) {
			t.Errorf("%q: %v: %s; want status %d, and %q", row.args, err, output, row.status, row.output)
		}
	}
}
