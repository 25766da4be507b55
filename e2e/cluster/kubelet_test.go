//go:build cluster

package cluster

import (
	"os"
	"path/filepath"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// kubeletDir is the kubelet's default, --root-dir.
const kubeletDir = "/var/lib/kubelet"

// startKubelet starts the kubelet with its directories where they usually are.
func (c *cluster) startKubelet() (err error) {
	configuration := c.KubeletConfiguration(map[string]any{
		"authentication": map[string]any{"x509": map[string]string{"clientCAFile": c.file("ca.crt")}},
		// Rather than what this machine asks, which it cannot reach.
		"resolvConf":      os.DevNull,
		"volumePluginDir": pluginDir,
		// How often it looks at each pod: by default, after a minute to a minute and a half. Until
		// then, no volume is published again, and no change of a ConfigMap gets to a pod.
		"syncFrequency": "10s",
	})
	if err := os.WriteFile(c.KubeletConf(), configuration, 0o600); err != nil {
		return err
	}
	c.kubelet, err = c.StartProcess("kubelet", filepath.Join(bin, "kubelet"),
		"--config", c.KubeletConf(),
		"--kubeconfig", c.kubeconfig("kubelet"),
		"--hostname-override", nodeName,
		"--node-ip", nodeIP,
		"--v", "2")
	return err
}

// waitForNode waits until pods can be made and the node takes them.
func (c *cluster) waitForNode() error {
	err := harness.Eventually(startLimit, func() error {
		if err := c.kubelet.Running(); err != nil {
			return err
		}
		_, err := c.kubectl("get", "node/"+nodeName, "serviceaccount/default")
		return err
	})
	if err == nil {
		_, err = c.kubectl("wait", "--for=condition=Ready", "--timeout=4m", "node/"+nodeName)
	}
	return err
}
