//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kubectlCommand is a call of kubectl as the cluster's administrator.
func (c *cluster) kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig("admin"), "KUBECACHEDIR="+c.file("kubectl-cache"))
	return cmd
}

// kubectl returns what kubectl prints.
func (c *cluster) kubectl(args ...string) (string, error) { return c.kubectlWith(nil, args...) }

// kubectlWith is kubectl with something on its standard input.
func (c *cluster) kubectlWith(input []byte, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := c.kubectlCommand(ctx, args...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out), err
}

// kubectl is for a call that has to succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := testCluster.kubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
