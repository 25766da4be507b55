package harness

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// CtrCommand is a call of containerd's own client in the namespace of the
// kubelet's containers.
func (n *Node) CtrCommand(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ctr", append([]string{"--address", n.Socket(), "--namespace", "k8s.io"}, args...)...)
}

// Ctr runs containerd's client and returns what it printed.
func (n *Node) Ctr(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := n.CtrCommand(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("ctr %s: %w: %s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out), nil
}

// ImportImages hands an archive of images to containerd. Nothing is pulled. The first container of
// an image unpacks it: containerd 2 would otherwise do so for its default snapshotter alone.
func (n *Node) ImportImages(archive string) error {
	_, err := n.Ctr("images", "import", "--no-unpack", archive)
	return err
}

// Tasks are the ids of the containers that have a process, sandboxes included.
func (n *Node) Tasks() ([]string, error) {
	out, err := n.Ctr("tasks", "list", "--quiet")
	return strings.Fields(out), err
}
