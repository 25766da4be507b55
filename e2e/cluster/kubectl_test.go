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

// command is a call of a client as the cluster's administrator, whose caches are
// not on the node.
func (c *cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig("admin"), "HOME="+c.Dir)
	return cmd
}

// kubectl returns what kubectl prints.
func (c *cluster) kubectl(args ...string) (string, error) { return c.kubectlWith(nil, args...) }

// kubectlWith is kubectl with something on its standard input.
func (c *cluster) kubectlWith(input []byte, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := c.command(ctx, filepath.Join(bin, "kubectl"), args...)
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
