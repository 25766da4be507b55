package testnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// OnNode puts the driver's place on a node of its own: a process in namespaces
// whose mounts are shared with containers, as systemd has it on real nodes. The
// process looks like a kubelet with this plugin directory, and is process 1 in its /proc.
func (d Driver) OnNode() Driver {
	d.T.Helper()
	kubelet := &exec.Cmd{
		Path: "/bin/sh",
		Args: []string{"kubelet", "-c", "mount --make-rshared / && mount --bind /proc/$$ /proc/1 && echo node > /proc/sys/kernel/hostname && echo ready && read end",
			"--volume-plugin-dir=" + d.PluginDir()},
		Env: os.Environ(),
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP,
		},
	}
	d.On = []string{"nsenter", "--target", fmt.Sprint(Started(d.T, kubelet).PID), "--mount", "--uts", "--cgroup", "--"}
	return d
}

// OnItsNode runs a shell script on the driver's node, and returns what it prints.
func (d Driver) OnItsNode(script string, args ...string) string {
	d.T.Helper()
	output, err := d.Execute(append([]string{"sh", "-c", script, "sh"}, args...)).CombinedOutput()
	if err != nil {
		d.T.Fatalf("%s: %v: %s", script, err, output)
	}
	return string(output)
}

// MountsOnItsNode counts the driver's mounts there.
func (d Driver) MountsOnItsNode() int {
	d.T.Helper()
	return strings.Count(d.OnItsNode("cat /proc/self/mountinfo"), " fuse.pod-info-fuse "+d.Name+" ")
}

// InContainer is the driver's place as an installer has it that is in a container
// of the node: with mounts and names of its own, and the node's root directory
// below another one, root. The kubelet makes a mount that gets to be seen there
// when the node has it (mountPropagation: HostToContainer).
func (d Driver) InContainer(more ...string) (inside Driver, root string) {
	d.T.Helper()
	root = filepath.Join(d.T.TempDir(), "host")
	if err := os.Mkdir(root, 0o755); err != nil {
		d.T.Fatal(err)
	}
	script := `mount --rbind / "$0" && echo container > /proc/sys/kernel/hostname && exec "$@"`
	d.On = append(append([]string{}, d.On...),
		append([]string{"unshare", "--mount", "--propagation", "slave", "--uts", "--ipc", "--cgroup", "sh", "-c", script, root}, more...)...)
	return d, root
}
