//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// containerdConfig keeps everything that containerd can be told about below one
// directory. Its shims' sockets go to /run/containerd/s all the same.
//
// restrict_oom_score_adj lets containers start where the tests may not lower a
// process's oom_score_adj. The native snapshotter works on any file system, and
// the one image is small.
const containerdConfig = `version = 2
root = "%[1]s/containerd/root"
state = "%[1]s/containerd/state"

[grpc]
  address = "%[1]s/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + image + `"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[1]s/cni/bin"
    conf_dir = "%[1]s/cni/conf"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "%[1]s/runc"
`

func (n *node) socket() string { return filepath.Join(n.dir, "containerd.sock") }

func (n *node) startContainerd() error {
	config := filepath.Join(n.dir, "containerd.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, containerdConfig, n.dir), 0o644); err != nil {
		return err
	}
	var err error
	if n.containerd, err = n.startProcess("containerd", "containerd", "--config", config); err != nil {
		return err
	}
	err = eventually(time.Minute, func() error {
		if err := n.containerd.running(); err != nil {
			return err
		}
		_, err := n.ctr("version")
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	return nil
}

// ctrCommand is a call of containerd's own client in the namespace of the
// kubelet's containers.
func (n *node) ctrCommand(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ctr", append([]string{"--address", n.socket(), "--namespace", "k8s.io"}, args...)...)
}

// ctr runs containerd's client and returns what it printed.
func (n *node) ctr(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := n.ctrCommand(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("ctr %s: %w: %s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out), nil
}

// tasks are the ids of the containers that have a process, sandboxes included.
func (n *node) tasks() ([]string, error) {
	out, err := n.ctr("tasks", "list", "--quiet")
	return strings.Fields(out), err
}

// killTasks ends the containers that the kubelet did not end.
func (n *node) killTasks() {
	tasks, _ := n.tasks()
	for _, id := range tasks {
		n.ctr("tasks", "delete", "--force", id)
	}
}
