//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// nodeName is what the kubelet calls the node; not the host's name, which is
// what the driver has to tell.
const nodeName = "node-1"

// kubeletBinary is what setup.sh built.
const kubeletBinary = "bin/kubelet"

func (n *node) kubeletRoot() string      { return filepath.Join(n.Dir, "kubelet") }
func (n *node) manifests() string        { return filepath.Join(n.Dir, "manifests") }
func (n *node) pluginDir() string        { return filepath.Join(n.Dir, "volume-plugins") }
func (n *node) podLogs() string          { return filepath.Join(n.Dir, "pod-logs") }
func (n *node) podDir(uid string) string { return filepath.Join(n.kubeletRoot(), "pods", uid) }

// configureKubelet writes the configuration of a kubelet without an API server.
func (n *node) configureKubelet() error {
	for _, dir := range []string{n.manifests(), n.pluginDir()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	var err error
	if n.port, err = freePort(); err != nil {
		return err
	}
	return os.WriteFile(n.KubeletConf(), n.KubeletConfiguration(map[string]any{
		"staticPodPath":   n.manifests(),
		"volumePluginDir": n.pluginDir(),
		"podLogsDir":      n.podLogs(),
		// The port through which one may look and do nothing is the only one.
		"enableServer":   false,
		"address":        "127.0.0.1",
		"readOnlyPort":   n.port,
		"authentication": map[string]any{"webhook": map[string]any{"enabled": false}},
		"authorization":  map[string]any{"mode": "AlwaysAllow"},
		"registerNode":   false,
	}), 0o644)
}

// startKubelet starts the kubelet, or starts it again, and waits until it answers.
func (n *node) startKubelet() error {
	var err error
	n.kubelet, err = n.StartProcess("kubelet", kubeletBinary,
		"--config", n.KubeletConf(),
		"--root-dir", n.kubeletRoot(),
		"--cert-dir", filepath.Join(n.Dir, "pki"),
		"--hostname-override", nodeName,
		// Without an API server, events have nowhere to go but the log.
		"--v", "2", "--vmodule", "event=3")
	if err != nil {
		return err
	}
	err = harness.Eventually(time.Minute, func() error {
		if err := n.kubelet.Running(); err != nil {
			return err
		}
		_, err := n.pods()
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the kubelet: %w", err)
	}
	return nil
}

// killKubelet ends the kubelet in the way that leaves it no time for anything.
func (n *node) killKubelet() error { return n.kubelet.Stop(syscall.SIGKILL, time.Minute) }

// stopKubelet ends the kubelet for good. To share the mounts below its root
// directory with containers it has bound that directory onto itself, which it
// leaves so.
func (n *node) stopKubelet() error {
	err := n.kubelet.Stop(syscall.SIGTERM, time.Minute)
	if err := syscall.Unmount(n.kubeletRoot(), 0); err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
		return fmt.Errorf("unmount the kubelet's root directory: %w", err)
	}
	return err
}

// A pod is what the tests need of the kubelet's own word on a pod.
type pod struct {
	Metadata struct{ Name, UID string }
	Status   struct {
		Phase                 string
		InitContainerStatuses []containerStatus
		ContainerStatuses     []containerStatus
	}
}

type containerStatus struct {
	Name         string
	ContainerID  string
	RestartCount int
	State        struct{ Running *struct{} }
}

// pods are the pods that the kubelet knows.
func (n *node) pods() ([]pod, error) {
	client := http.Client{Timeout: 10 * time.Second}
	url := fmt.Sprintf("http://127.0.0.1:%d/pods", n.port)
	answer, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, answer.Status)
	}
	var list struct{ Items []pod }
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	return list.Items, nil
}

// freePort is a port on the loopback interface. It is none of those that the kernel gives to
// who asks for any (net.ipv4.ip_local_port_range): the kubelet is restarted, and must have it
// again.
func freePort() (port int, err error) {
	for port = 20_000; port < 30_000; port++ {
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, err
}
