//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// kept tells whether the cluster is to stay until Ctrl-C, and no test to run.
func kept() bool { return os.Getenv("E2E_CLUSTER_KEEP") != "" }

// nodeShell is a script, which is there while the cluster is. It starts a shell or a command on the
// node.
var nodeShell = filepath.Join(bin, "node-shell")

// repository is the root directory of the source.
const repository = "../.."

// writeNodeShell writes the script. The machine's first process has this PID outside of it.
func writeNodeShell(pid int) error {
	directory, err := filepath.Abs(repository)
	if err != nil {
		return err
	}
	words := append([]string{"env", "-C", directory}, nodeEnvironment(directory)...)
	for i, word := range words {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return os.WriteFile(nodeShell, fmt.Appendf(nil, `#!/bin/sh
# A shell on the node of make cluster, or the command that is given.
[ $# -gt 0 ] || set -- "${SHELL:-sh}"
exec nsenter --target %d --mount --uts --ipc --net --pid -- %s "$@"
`, pid, strings.Join(words, " ")), 0o755)
}

// nodeEnvironment is what commands need on the node that people write, as the README has them:
// kubectl, helm and ctr, and where these find the cluster.
func nodeEnvironment(directory string) []string {
	c := newCluster()
	return []string{
		"PATH=" + filepath.Join(directory, "e2e/bin") + ":" + filepath.Join(directory, "bin") + ":" + os.Getenv("PATH"),
		"KUBECONFIG=" + c.kubeconfig("admin"),
		"KUBECACHEDIR=" + c.file("kube-cache"),
		"CONTAINERD_ADDRESS=" + c.Socket(),
	}
}

// keep says how to use the cluster, which stays. It never returns: Ctrl-C ends the machine.
func (c *cluster) keep() int {
	fmt.Printf(`
The cluster is ready. Ctrl-C ends it, and leaves nothing. In another terminal, as root, in this directory:

    e2e/bin/node-shell               a shell on the node %s, which has kubectl, helm and ctr
    e2e/bin/node-shell COMMAND...    a command there

The commands of the README work there, from kubectl on. The driver's image is imported, and so is busybox;
there is no registry.

    KUBECONFIG=%s
    CONTAINERD_ADDRESS=%s
    logs: %s, and those of pods in /var/log/pods
`, nodeName, c.kubeconfig("admin"), c.Socket(), c.Log("*"))
	for {
		time.Sleep(time.Hour)
	}
}
