package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// onNode puts the driver's place on a node of its own: a process in namespaces
// whose mounts are shared with containers, as systemd has it on real nodes. The
// process looks like a kubelet with this plugin directory.
func (d installed) onNode() installed {
	d.t.Helper()
	kubelet := &exec.Cmd{
		Path: "/bin/sh",
		Args: []string{"kubelet", "-c", "mount --make-rshared / && echo node > /proc/sys/kernel/hostname && echo ready && read end",
			"--volume-plugin-dir=" + d.pluginDir()},
		Env: os.Environ(),
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP,
		},
	}
	d.on = []string{"nsenter", "--target", fmt.Sprint(started(d.t, kubelet).pid), "--mount", "--uts", "--cgroup", "--"}
	return d
}

// onItsNode runs a shell script on the driver's node, and returns what it prints.
func (d installed) onItsNode(script string, args ...string) string {
	d.t.Helper()
	output, err := d.execute(append([]string{"sh", "-c", script, "sh"}, args...)).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s: %v: %s", script, err, output)
	}
	return string(output)
}

// mountsOnItsNode counts the driver's mounts there.
func (d installed) mountsOnItsNode() int {
	d.t.Helper()
	return strings.Count(d.onItsNode("cat /proc/self/mountinfo"), " fuse.pod-info-fuse "+d.name+" ")
}

// inContainer is the driver's place as an installer has it that is in a container
// of the node: with mounts and names of its own, and the node's root directory
// below another one, root. The kubelet makes a mount that gets to be seen there
// when the node has it (mountPropagation: HostToContainer).
func (d installed) inContainer(more ...string) (inside installed, root string) {
	d.t.Helper()
	root = filepath.Join(d.t.TempDir(), "host")
	if err := os.Mkdir(root, 0o755); err != nil {
		d.t.Fatal(err)
	}
	script := `mount --rbind / "$0" && echo container > /proc/sys/kernel/hostname && exec "$@"`
	d.on = append(append([]string{}, d.on...),
		append([]string{"unshare", "--mount", "--propagation", "slave", "--uts", "--ipc", "--cgroup", "sh", "-c", script, root}, more...)...)
	return d, root
}
