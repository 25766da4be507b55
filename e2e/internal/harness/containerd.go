package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// containerdConfig keeps everything that containerd can be told about below one
// directory. Its shims' sockets go to /run/containerd/s all the same.
//
// restrict_oom_score_adj lets containers start where the tests may not lower a
// process's oom_score_adj. The native snapshotter works on any file system, and
// the images are small. Pods have a network if there is a file in CNIConf.
const containerdConfig = `version = 2
root = "%[1]s/containerd/root"
state = "%[1]s/containerd/state"

[grpc]
  address = "%[1]s/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "%[3]s"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "%[1]s/runc"
`

// UseRuntime lets this process start the containerd, with its shim and client, and the runc that
// setup.sh built in a directory, unless it was to take Debian's.
func UseRuntime(dir string) error {
	built, err := filepath.Abs(dir)
	if err == nil && os.Getenv("RUNTIME") != "debian" {
		err = os.Setenv("PATH", built+":"+os.Getenv("PATH"))
	}
	return err
}

// Socket is containerd's.
func (n *Node) Socket() string { return filepath.Join(n.Dir, "containerd.sock") }

// CNIConf is the directory of the configuration of the pods' network.
func (n *Node) CNIConf() string { return filepath.Join(n.Dir, "cni") }

// StartContainerd starts containerd and waits until it answers. The process of a
// sandbox only has to stay, as the one of sandboxImage does.
func (n *Node) StartContainerd(sandboxImage string) error {
	config := filepath.Join(n.Dir, "containerd.toml")
	// The root user of a pod with users of its own has to get to its files. Without it, containerd
	// makes one that nobody else may enter.
	if err := os.MkdirAll(filepath.Join(n.Dir, "containerd"), 0o711); err != nil {
		return err
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, containerdConfig, n.Dir, sandboxImage, n.CNIConf()), 0o644); err != nil {
		return err
	}
	var err error
	if n.containerd, err = n.StartProcess("containerd", "containerd", "--config", config); err != nil {
		return err
	}
	err = Eventually(time.Minute, func() error {
		if err := n.containerd.Running(); err != nil {
			return err
		}
		_, err := n.Ctr("version")
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	return nil
}

// StopContainerd ends the containers that the kubelet did not end, and containerd.
func (n *Node) StopContainerd() error {
	if n.containerd == nil {
		return nil
	}
	tasks, _ := n.Tasks()
	for _, id := range tasks {
		n.Ctr("tasks", "delete", "--force", id) // LeftProcesses tells of what stays
	}
	return n.containerd.Stop(syscall.SIGTERM, time.Minute)
}
