//go:build cluster

package cluster

import (
	"errors"
	"path/filepath"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// startLimit is how long one thing may take to start. The machine may be slow, and pods start
// together.
const startLimit = 4 * time.Minute

// startControlPlane starts etcd and the API server, which waits for etcd.
func (c *cluster) startControlPlane() error {
	_, err := c.StartProcess("etcd", "etcd",
		"--data-dir", c.file("etcd"),
		"--logger", "zap",
		"--unsafe-no-fsync")
	if err != nil {
		return err
	}
	_, err = c.StartProcess("kube-apiserver", filepath.Join(bin, "kube-apiserver"),
		"--etcd-servers", "http://127.0.0.1:2379",
		"--bind-address", nodeIP,
		"--service-cluster-ip-range", serviceSubnet,
		"--authorization-mode", "Node,RBAC",
		"--enable-admission-plugins", "NodeRestriction",
		// Pods may ask to be privileged; who may have it is the admission's business.
		"--allow-privileged",
		"--client-ca-file", c.file("ca.crt"),
		"--tls-cert-file", c.file("kube-apiserver.crt"),
		"--tls-private-key-file", c.file("kube-apiserver.key"),
		// For what goes through the API server to a container, as kubectl exec.
		"--kubelet-client-certificate", c.file("admin.crt"),
		"--kubelet-client-key", c.file("admin.key"),
		"--kubelet-preferred-address-types", "InternalIP",
		"--service-account-issuer", apiServer,
		"--service-account-key-file", c.file("tokens.crt"),
		"--service-account-signing-key-file", c.file("tokens.key"))
	return err
}

func (c *cluster) waitForAPI() error {
	return harness.Eventually(startLimit, func() error {
		_, err := c.kubectl("get", "--raw", "/readyz")
		return err
	})
}

func (c *cluster) startControllers() error {
	_, scheduler := c.StartProcess("kube-scheduler", filepath.Join(bin, "kube-scheduler"),
		"--kubeconfig", c.kubeconfig("kube-scheduler"),
		"--leader-elect=false")
	_, manager := c.StartProcess("kube-controller-manager", filepath.Join(bin, "kube-controller-manager"),
		"--kubeconfig", c.kubeconfig("kube-controller-manager"),
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--root-ca-file", c.file("ca.crt"),
		// It calls drivers as well: init, and no more where they don't attach.
		"--flex-volume-plugin-dir", pluginDir,
		"--service-account-private-key-file", c.file("tokens.key"))
	return errors.Join(scheduler, manager)
}
